// Folds a graph into blocks of rows: chains, and groups of nodes from one line or function.
"use strict";

const ROW = 24, MAX_ROWS = 8, CHAR = 7.25, SMALL = 6.05, PAD = 9, GROUP_ROW = 42;

const short = (text, limit) => text.length <= limit ? text : text.slice(0, limit - 1) + "…";
const placeText = (place) => place ? `${place[1]}:${place[2]}` : "";

function groupKey(node, by) {
  // What the nodes of a group have in common; null for a node that stands alone.
  const place = node.l >= 0 ? data.locations[node.l] : null;
  if (by === "none" || node.input || !place) return null;
  return by === "line" ? placeText(place) : `${place[3] || "module"} · ${place[1]}`;
}

function unitsOf(graph, by, open) {
  // Units: {nodes, key, label}. Inputs first, then runs of nodes that belong together.
  const inputs = [], work = [];
  let last = null;
  graph.nodes.forEach((node, id) => {
    if (node.inline) return;
    const label = groupKey(node, by);
    if (node.input) inputs.push({ nodes: [id], label: null });
    else if (label && last && last.label === label) last.nodes.push(id);
    else work.push(last = { nodes: [id], label });
  });
  const units = [];
  for (const unit of inputs.concat(work)) {
    const key = `${unit.label}@${unit.nodes[0]}`;
    if (unit.label && unit.nodes.length > 1 && !open.has(key)) units.push({ ...unit, key });
    else for (const id of unit.nodes) units.push({ nodes: [id], label: null, inside: unit.nodes.length > 1 ? key : null });
  }
  return units;
}

function rowOf(graph, unit) {
  // What a unit shows, and how wide that is.
  if (unit.label) {
    const nodes = unit.nodes.map((id) => graph.nodes[id]);
    const place = data.locations[nodes[0].l];
    const names = new Map();
    for (const node of nodes) names.set(node.op, (names.get(node.op) || 0) + 1);
    const common = [...names].sort((a, b) => b[1] - a[1]).slice(0, 4);
    const about = short(place[4] && unit.label === placeText(place) ? place[4]
      : common.map(([name, n]) => n > 1 ? `${name} ×${n}` : name).join(", "), 42);
    const count = `${nodes.length} nodes`;
    const width = Math.max(unit.label.length * CHAR + count.length * SMALL + 24, about.length * SMALL) + 2 * PAD;
    return { unit, title: unit.label, about, count, width, height: GROUP_ROW };
  }
  const id = unit.nodes[0], node = graph.nodes[id];
  const pills = (node.i || []).filter((s) => graph.nodes[s].inline).map((s) => short(graph.nodes[s].t, 14));
  const mark = node.o ? "out " + node.o.join(", ") : "";
  const label = graph.kernels ? `k${id}` : `%${id}`, title = short(node.t, 28) + (node.g ? " ▾" : ""), spec = short(node.s, 28);
  let width = 2 * PAD + label.length * SMALL + 6 + title.length * CHAR + 14 + spec.length * SMALL;
  for (const pill of pills) width += pill.length * SMALL + 14;
  if (mark) width += mark.length * SMALL + 16;
  return { unit, id, node, label, title, spec, pills, mark, width, height: ROW };
}

function blocksOf(graph, by, open) {
  const units = unitsOf(graph, by, open);
  const unitOfNode = new Map();
  units.forEach((unit, u) => unit.nodes.forEach((id) => unitOfNode.set(id, u)));
  const sources = units.map((unit, u) => {
    const found = new Set();
    for (const id of unit.nodes) for (const s of graph.nodes[id].i || []) {
      const from = unitOfNode.get(s);
      if (from !== undefined && from !== u) found.add(from);
    }
    return [...found];
  });
  const users = new Array(units.length).fill(0);
  for (const found of sources) for (const s of found) users[s]++;
  const blocks = [], blockOfUnit = [];
  units.forEach((unit, u) => {
    const row = rowOf(graph, unit);
    const before = sources[u].length === 1 ? sources[u][0] : -1;
    const home = before >= 0 ? blocks[blockOfUnit[before]] : null;
    const follows = home && !unit.label && !graph.kernels && users[before] === 1
      && !units[before].label && !graph.nodes[units[before].nodes[0]].input
      && home.rows[home.rows.length - 1].unit === units[before] && home.rows.length < MAX_ROWS;
    if (follows) {
      home.rows.push(row);
      home.width = Math.max(home.width, row.width);
      home.height += row.height;
      blockOfUnit.push(blockOfUnit[before]);
      return;
    }
    blockOfUnit.push(blocks.length);
    blocks.push({ rows: [row], width: row.width, height: row.height, from: [...new Set(sources[u].map((s) => blockOfUnit[s]))] });
  });
  return blocks;
}
