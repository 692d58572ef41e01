// The page: panels side by side, search, and details of what is selected.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const MONO = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';

function h(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.flat().filter((child) => child !== null));
  return element;
}

class Page {
  constructor() {
    this.details = document.getElementById("details");
    this.searchBox = document.getElementById("search");
    this.found = document.getElementById("found");
    this.selected = null;
    this.hits = null;
    this.order = [];
    this.turn = -1;
    this.panels = data.panels.map((index, number) => new Panel(this, number, index));
    this.columns = data.columns.map((numbers) => ({ panels: numbers.map((k) => this.panels[k]), box: h("div", { className: "column" }, numbers.map((k) => this.panels[k].box)) }));
    document.getElementById("panels").append(...this.columns.map((column) => column.box));
    this.setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    this.listen();
    this.resize();
    this.collapse("none", true);
    this.balance();
    this.overview();
  }

  listen() {
    const watch = new ResizeObserver(() => { for (const panel of this.panels) if (panel.size()) panel.paint(); });
    for (const panel of this.panels) watch.observe(panel.canvas);
    addEventListener("hashchange", () => this.follow());
    document.getElementById("fit").onclick = () => this.fit();
    document.getElementById("theme").onclick = () => this.setTheme(this.style.dark ? "light" : "dark");
    document.getElementById("collapse").onclick = (event) => { if (event.target.dataset.by) this.collapse(event.target.dataset.by, true); };
    this.searchBox.oninput = () => this.search(this.searchBox.value);
    this.searchBox.onkeydown = (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") { this.searchBox.value = ""; this.search(""); this.searchBox.blur(); }
    };
    addEventListener("keydown", (event) => {
      if (event.target === this.searchBox) return;
      if (event.key === "/") { event.preventDefault(); this.searchBox.focus(); }
      if (event.key === "f") this.fit();
      if (event.key === "Escape") this.pick(null, null);
      const move = { ArrowUp: "i", ArrowDown: "users", ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (move && this.selected && !event.shiftKey) { event.preventDefault(); this.step(move); }
    });
  }

  setTheme(name) {
    document.documentElement.dataset.theme = name;
    const read = (key) => getComputedStyle(document.documentElement).getPropertyValue(`--${key}`).trim();
    const dark = name === "dark";
    this.style = {
      dark, ink: read("ink"), soft: read("soft"), hit: read("hit"), accent: read("accent"), card: read("card"),
      edge: dark ? "#5a6470" : "#a8b0ba", pill: dark ? "#2a3038" : "#ffffff", group: dark ? "#242a31" : "#f7f8fa", map: dark ? "#1c2026e6" : "#ffffffe6",
    };
    for (const panel of this.panels) if (panel.layout) panel.draw();
  }

  resize() {
    for (const panel of this.panels) { panel.size(); if (panel.layout) panel.draw(); }
  }

  balance() {
    // Wide graphs get more of the width; what is folded away gets none.
    for (const { box, panels } of this.columns) {
      const open = panels.filter((panel) => !panel.box.classList.contains("shut"));
      box.classList.toggle("shut", !open.length);
      const wide = Math.max(0, ...open.map((panel) => panel.layout.width));
      box.style.flexGrow = open.length ? Math.sqrt(Math.min(1200, Math.max(300, wide + 40))) / 20 : 0;
    }
    for (const panel of this.panels) { panel.size(); panel.begin(); panel.draw(); }
  }

  fit() { for (const panel of this.panels) { panel.fit(); panel.draw(); } }

  collapse(by, fit) {
    for (const button of document.querySelectorAll("#collapse button")) button.setAttribute("aria-pressed", button.dataset.by === by);
    for (const panel of this.panels) { panel.by = by; panel.open.clear(); panel.rebuild(fit); }
  }

  search(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.hits = words.length ? new Set() : null;
    this.order = [];
    this.turn = -1;
    if (words.length) for (const panel of this.panels) panel.graph.nodes.forEach((node, id) => {
      if (node.inline) return;
      node.text ||= textOf(node, id, panel.graph).toLowerCase();
      if (!words.every((word) => word.startsWith("%") ? word === `%${id}` && !panel.graph.kernels : node.text.includes(word))) return;
      this.hits.add(`${panel.graphIndex}:${id}`);
      this.order.push([panel, id]);
    });
    this.found.textContent = words.length ? `${this.order.length} found` : "";
    for (const panel of this.panels) panel.draw();
  }

  next(step) {
    if (!this.order.length) return;
    this.turn = (this.turn + step + this.order.length) % this.order.length;
    const [panel, id] = this.order[this.turn];
    this.found.textContent = `${this.turn + 1} of ${this.order.length}`;
    this.select(panel, id);
  }

  step(kind) {
    // To an input, a user, or the node before or after.
    const { panel, id } = this.selected, nodes = panel.graph.nodes;
    if (typeof kind === "number") {
      let next = id + kind;
      while (nodes[next] && nodes[next].inline) next += kind;
      if (nodes[next]) this.select(panel, next);
      return;
    }
    const near = kind === "i" ? (panel.graph.nodes[id].i || []).filter((s) => !panel.graph.nodes[s].inline) : usersOf(panel.graph, id);
    if (near.length) this.select(panel, near[0]);
  }

  pick(panel, row) {
    if (!row) { this.selected = null; this.relate(); this.overview(); return; }
    if (row.unit.label) { this.selected = { panel, id: row.unit.nodes[0] }; this.relate(); this.describeGroup(panel, row); return; }
    this.select(panel, row.id, false);
  }

  select(panel, id, reveal = true) {
    this.selected = { panel, id };
    this.relate();
    if (reveal) panel.reveal(id);
    this.describe(panel, id);
  }

  relate() {
    // Marks, in the other panels, the kernel of a node, the nodes of a kernel, and the same line.
    for (const panel of this.panels) panel.related = new Set();
    if (this.selected) {
      const { panel, id } = this.selected;
      for (const other of this.panels) {
        if (other === panel) continue;
        other.related = new Set(partners(panel.graph, panel.graphIndex, id, other.graph, other.graphIndex));
        const first = [...other.related][0];
        if (first !== undefined && !other.box.classList.contains("shut")) other.reveal(first);
      }
    }
    for (const panel of this.panels) if (panel.layout) panel.draw();
  }

  chip(panel, id) {
    const node = panel.graph.nodes[id];
    const label = node.inline ? node.t : panel.graph.kernels ? `k${id}` : `%${id} ${node.t}`;
    return h("button", { className: "chip", title: node.s, disabled: Boolean(node.inline), onclick: () => this.select(panel, id) }, short(label, 30));
  }

  describe(panel, id) {
    const graph = panel.graph, node = graph.nodes[id], family = data.families[node.f];
    const [fill, ink] = this.style.dark ? family.night : family.day;
    const rows = [];
    const add = (name, value) => { if (value) rows.push(h("tr", {}, h("td", {}, name), h("td", {}, value))); };
    add(graph.kernels ? "over" : "yields", node.s);
    for (const [name, value] of node.a || []) add(name, value);
    if (node.o) add("output", node.o.join(", "));
    const parts = [
      h("h2", {}, graph.kernels ? `k${id} ${node.t}` : `%${id} ${node.t}`),
      h("span", { className: "kind", style: `background:${fill};color:${ink};border:1px solid ${ink}` }, family.name),
      h("table", { style: "margin-top:10px" }, rows),
    ];
    const places = node.places || (node.l >= 0 ? [node.l] : []);
    if (places.length) parts.push(h("h3", {}, places.length > 1 ? "Source lines" : "Source line"), ...places.map(sourceOf));
    const section = (title, chips) => { if (chips.length) parts.push(h("h3", {}, title), ...chips); };
    section("Inputs", (node.i || []).map((s) => this.chip(panel, s)));
    section("Used by", usersOf(graph, id).slice(0, 40).map((u) => this.chip(panel, u)));
    for (const other of this.panels) {
      if (other === panel) continue;
      const found = partners(graph, panel.graphIndex, id, other.graph, other.graphIndex);
      const title = other.graph.kernels ? "Kernel" : graph.kernels ? `Nodes in ${other.graph.title}` : `Partner in ${other.graph.title}`;
      section(title, found.slice(0, 60).map((p) => this.chip(other, p)));
    }
    section("Graphs inside", (node.g || []).map((index) => h("button", { className: "chip", onclick: () => panel.show(index) }, data.graphs[index].name)));
    if (node.ir) parts.push(h("h3", {}, "LLVM IR"), h("pre", {}, node.ir));
    this.details.replaceChildren(...parts);
    this.details.scrollTop = 0;
  }

  describeGroup(panel, row) {
    const graph = panel.graph, place = graph.nodes[row.unit.nodes[0]].l;
    this.details.replaceChildren(
      h("h2", {}, row.title), h("p", {}, `${row.unit.nodes.length} nodes`), sourceOf(place),
      h("p", {}, h("button", { className: "chip", onclick: () => panel.unfold(row.unit.key) }, "unfold")),
      h("h3", {}, "Nodes"), ...row.unit.nodes.slice(0, 200).map((id) => this.chip(panel, id)));
  }

  overview() {
    const counts = new Map();
    for (const panel of this.panels) if (!panel.graph.kernels) for (const node of panel.graph.nodes) counts.set(node.f, (counts.get(node.f) || 0) + 1);
    const total = [...counts.values()].reduce((a, b) => a + b, 0) || 1;
    const sorted = [...counts].sort((a, b) => b[1] - a[1]);
    const ink = (f) => (this.style.dark ? data.families[f].night : data.families[f].day)[1];
    this.details.replaceChildren(
      h("h2", {}, data.title), h("div", { className: "bar" }, sorted.map(([f, n]) => h("i", { style: `flex:${n / total};background:${ink(f)}` }))),
      h("div", {}, sorted.map(([f, n]) => h("span", { className: "key" }, h("i", { style: `background:${ink(f)}` }), `${data.families[f].name} ${n}`))),
      ...(data.summary ? [h("h3", {}, "Summary"), summaryOf(data.summary)] : []),
      h("h3", {}, "How to move"),
      h("p", {}, "Drag to pan, scroll to zoom, click a node for its details. ", h("kbd", {}, "/"), " searches, ", h("kbd", {}, "Enter"),
        " goes from hit to hit, ", h("kbd", {}, "F"), " fits, ", h("kbd", {}, "↑"), " ", h("kbd", {}, "↓"), " follow values, ", h("kbd", {}, "←"), " ", h("kbd", {}, "→"), " go from node to node, ", h("kbd", {}, "+"), " ", h("kbd", {}, "-"), " zoom. Double-click a group (or press ",
        h("kbd", {}, "Enter"), ") to unfold it, and a node with ▾ to see the graph inside."));
  }

  follow() {
    // The state in the address: #search=tanh&collapse=function&select=0:12
    const state = new URLSearchParams(location.hash.slice(1));
    if (state.has("theme")) this.setTheme(state.get("theme"));
    if (state.has("collapse")) this.collapse(state.get("collapse"), true);
    if (state.has("search")) { this.searchBox.value = state.get("search"); this.search(state.get("search")); }
    if (state.has("select")) {
      const [number, id] = state.get("select").split(":").map(Number);
      if (this.panels[number] && this.panels[number].graph.nodes[id]) this.select(this.panels[number], id);
    }
  }
}

function textOf(node, id, graph) {
  const places = (node.places || (node.l >= 0 ? [node.l] : [])).map((l) => data.locations[l]);
  return [graph.kernels ? `k${id}` : `%${id}`, node.op, node.t, node.s, ...(node.a || []).flat(), ...places.flatMap((p) => [placeText(p), p[3], p[4]])].join(" ");
}

function usersOf(graph, id) {
  if (!graph.users) {
    graph.users = graph.nodes.map(() => []);
    graph.nodes.forEach((node, user) => { for (const s of new Set(node.i || [])) graph.users[s].push(user); });
  }
  return graph.users[id];
}

function partners(graph, index, id, other, otherIndex) {
  // Ids in the other graph: of the kernel, of the nodes in a kernel, or of the same source line.
  const node = graph.nodes[id];
  if (other.kernels) return other.of === index && node.k >= 0 ? [node.k] : [];
  if (graph.kernels && graph.of === otherIndex) return node.n;
  const places = new Set(node.places || [node.l]);
  const found = [];
  other.nodes.forEach((one, k) => { if (one.l >= 0 && !one.input && !one.inline && places.has(one.l)) found.push(k); });
  return found;
}

function summaryOf(text) {
  // Lines of a name, a count and words, as a table that wraps.
  const [title, ...lines] = text.split("\n"), rows = [];
  for (const line of lines) {
    const [, name, count, words] = line.match(/^ *((?:\S+ ?)*\S)?(?: {2,}(\d+))?(?: {2,}(.*))?$/) || [null, line, "", ""];
    if (name && /^ {0,4}\S/.test(line)) rows.push([name, count || "", words || ""]);
    else if (rows.length) rows[rows.length - 1][2] += ` ${line.trim()}`;
  }
  return h("div", {}, h("p", {}, title), h("table", { className: "summary" }, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell))))));
}

function sourceOf(index) {
  const place = data.locations[index];
  return h("div", { className: "source", title: place[0] }, h("i", {}, placeText(place) + (place[3] ? ` in ${place[3]}` : "")), place[4] || "source not available");
}

addEventListener("error", (event) => { document.body.dataset.error = event.message; });
const page = new Page();
page.follow();
for (const panel of page.panels) panel.paint();
document.body.dataset.seconds = (performance.now() / 1000).toFixed(2);
document.body.dataset.ready = page.panels.map((panel) => `${panel.blocks.length}/${panel.painted}`).join(" ");
