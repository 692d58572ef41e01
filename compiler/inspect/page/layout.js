// Places blocks in layers. Knows blocks with a width, a height and the blocks they depend on.
"use strict";

const GAP_X = 22, GAP_Y = 30, FAR = 6, COLUMN_GAP = 70;

function layersOf(blocks) {
  // The longest way into a block decides; a block with fewer sources than users comes down to them.
  const layer = new Array(blocks.length).fill(0);
  blocks.forEach((block, b) => { for (const s of block.from) layer[b] = Math.max(layer[b], layer[s] + 1); });
  const lowest = new Array(blocks.length).fill(Infinity), users = new Array(blocks.length).fill(0);
  for (const block of blocks) for (const s of block.from) users[s]++;
  for (let b = blocks.length - 1; b >= 0; b--) {
    const sources = blocks[b].from.filter((s) => blocks[s].from.length).length;
    if (lowest[b] !== Infinity && sources < users[b]) layer[b] = lowest[b];
    for (const s of blocks[b].from) lowest[s] = Math.min(lowest[s], layer[b] - 1);
  }
  return layer;
}

function keepApart(wanted, gaps) {
  // The positions closest to the wanted ones that keep the order and the gaps.
  const offsets = [0];
  for (const gap of gaps) offsets.push(offsets[offsets.length - 1] + gap);
  const groups = [];
  wanted.forEach((value, k) => {
    let mean = value - offsets[k], weight = 1;
    while (groups.length && groups[groups.length - 1].mean >= mean) {
      const last = groups.pop();
      mean = (mean * weight + last.mean * last.weight) / (weight + last.weight);
      weight += last.weight;
    }
    groups.push({ mean, weight });
  });
  const means = groups.flatMap((group) => new Array(group.weight).fill(group.mean));
  return means.map((mean, k) => mean + offsets[k]);
}

function columnsOf(blocks, layer, aspect) {
  // Cuts tall drawings into columns side by side; gives the column of each layer.
  const count = Math.max(-1, ...layer) + 1;
  const height = new Array(count).fill(0), width = new Array(count).fill(0);
  blocks.forEach((block, b) => {
    height[layer[b]] = Math.max(height[layer[b]], block.height + GAP_Y);
    width[layer[b]] += block.width + GAP_X;
  });
  // A few wide layers do not decide.
  const tall = height.reduce((a, b) => a + b, 0), wide = [...width].sort((a, b) => a - b)[Math.floor(0.95 * count)] || 1;
  const columns = tall > 1400 ? Math.max(1, Math.round(Math.sqrt(aspect * tall / (wide + COLUMN_GAP)))) : 1;
  const found = [];
  let done = 0;
  for (const one of height) {
    found.push(Math.min(Math.floor(columns * (done + one / 2) / tall), columns - 1));
    done += one;
  }
  return found;
}

function placeColumn(items, edges, layer) {
  // items: {width, height}; edges: [source, target, far]. Adds x, y to items; gives routes.
  const rows = [];
  const all = items.map((item, k) => ({ item, width: item.width, height: item.height, layer: layer[k], near: [], above: [], below: [] }));
  const put = (entry) => { (rows[entry.layer] ||= []).push(entry); };
  all.forEach(put);
  const chains = edges.map(([s, t]) => {
    const chain = [all[s]];
    for (let l = layer[s] + 1; l < layer[t]; l++) {
      const point = { width: 8, height: 0, layer: l, near: [], above: [], below: [] };
      put(point);
      chain.push(point);
    }
    chain.push(all[t]);
    for (let k = 1; k < chain.length; k++) {
      chain[k - 1].below.push(chain[k]);
      chain[k].above.push(chain[k - 1]);
    }
    return chain;
  });
  for (let l = 0; l < rows.length; l++) rows[l] ||= [];
  const number = (row) => row.forEach((entry, k) => { entry.rank = k; });
  rows.forEach(number);
  for (let sweep = 0; sweep < 8; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      const mean = new Map(row.map((entry) => {
        const near = down ? entry.above : entry.below;
        return [entry, near.length ? near.reduce((sum, other) => sum + other.rank, 0) / near.length : entry.rank];
      }));
      row.sort((a, b) => mean.get(a) - mean.get(b));
      number(row);
    }
  }
  for (const row of rows) {
    let start = 0;
    for (const entry of row) { entry.x = start + entry.width / 2; start += entry.width + GAP_X; }
  }
  for (let sweep = 0; sweep < 16; sweep++) {
    for (const row of sweep % 2 === 0 ? rows : [...rows].reverse()) {
      const wanted = row.map((entry) => {
        const near = entry.above.concat(entry.below);
        return near.length ? near.reduce((sum, other) => sum + other.x, 0) / near.length : entry.x;
      });
      const gaps = row.slice(1).map((entry, k) => (row[k].width + entry.width) / 2 + GAP_X);
      keepApart(wanted, gaps).forEach((x, k) => { row[k].x = x; });
    }
  }
  let left = Infinity, right = -Infinity, top = 0;
  for (const row of rows) for (const entry of row) {
    left = Math.min(left, entry.x - entry.width / 2);
    right = Math.max(right, entry.x + entry.width / 2);
  }
  const tops = [], heights = [];
  for (const row of rows) {
    const high = Math.max(0, ...row.map((entry) => entry.height));
    tops.push(top);
    heights.push(high);
    top += high + GAP_Y;
  }
  for (const entry of all) {
    entry.item.x = entry.x - left - entry.width / 2;
    entry.item.y = tops[entry.layer] + (heights[entry.layer] - entry.height) / 2;
  }
  const routes = chains.map((chain) => chain.flatMap((entry, k) => {
    const x = entry.x - left;
    if (k === 0) return [[x, entry.item.y + entry.height]];
    if (k === chain.length - 1) return [[x, entry.item.y]];
    return [[x, tops[entry.layer]], [x, tops[entry.layer] + heights[entry.layer]]];
  }));
  return { routes, width: Math.max(0, right - left), height: Math.max(0, top - GAP_Y) };
}

function layOut(blocks, aspect) {
  // Adds x and y to blocks. Gives the drawn edges as {from, to, points} and the size of it all.
  const layer = layersOf(blocks);
  const columnOfLayer = columnsOf(blocks, layer, aspect);
  const drawn = [], named = [];
  blocks.forEach((block, b) => {
    for (const s of block.from) {
      const far = layer[b] - layer[s] > FAR || columnOfLayer[layer[s]] !== columnOfLayer[layer[b]];
      (far ? named : drawn).push([s, b]);
    }
  });
  const edges = [];
  let width = 0, height = 0;
  const columns = Math.max(-1, ...columnOfLayer) + 1;
  for (let column = 0; column < columns; column++) {
    const members = [], place = new Map();
    blocks.forEach((block, b) => {
      if (columnOfLayer[layer[b]] === column) { place.set(b, members.length); members.push(b); }
    });
    const first = members.reduce((low, b) => Math.min(low, layer[b]), Infinity);
    const inner = drawn.filter(([s]) => place.has(s));
    const placed = placeColumn(
      members.map((b) => blocks[b]), inner.map(([s, t]) => [place.get(s), place.get(t)]),
      members.map((b) => layer[b] - first));
    const dx = width + (width ? COLUMN_GAP : 0);
    for (const b of members) blocks[b].x += dx;
    inner.forEach(([s, t], k) => edges.push({ from: s, to: t, points: placed.routes[k].map(([x, y]) => [x + dx, y]) }));
    width = dx + placed.width;
    height = Math.max(height, placed.height);
  }
  return { edges, named, width, height };
}
