// One canvas with one graph: pans, zooms, and tells what is under the pointer.
"use strict";

const READABLE = 0.6, LEGIBLE = 0.42;
const MAP = 92, MAP_MARGIN = 10;

class Panel {
  constructor(page, number, graphIndex) {
    Object.assign(this, { page, number, stack: [], by: "none", open: new Set(), hover: null, related: new Set() });
    this.painter = new Painter(this);
    this.canvas = h("canvas", { tabIndex: 0 });
    this.canvas.setAttribute("role", "img");
    this.name = h("b");
    this.about = h("span");
    this.back = h("button", { onclick: () => this.show(this.stack.pop(), true), title: "Back" }, "‹ back");
    const shut = h("button", { title: "Fold or unfold this panel", onclick: () => this.toggle() }, "–");
    this.head = h("div", { className: "head" }, this.back, this.name, this.about, h("i", { className: "space" }), shut);
    this.box = h("section", { className: "panel" }, this.head, this.canvas);
    this.camera = { x: 0, y: 0, scale: 1 };
    this.listen();
    this.graphIndex = graphIndex;
    this.box.classList.toggle("narrow", Boolean(this.graph.kernels));
  }

  get graph() { return data.graphs[this.graphIndex]; }

  show(index, isBack = false) {
    if (!isBack && this.graphIndex !== index) this.stack.push(this.graphIndex);
    this.graphIndex = index;
    this.open.clear();
    this.rebuild(true);
  }

  toggle() {
    this.box.classList.toggle("shut");
    this.page.balance();
  }

  rebuild(fit) {
    const graph = this.graph, { width, height } = this.canvas.getBoundingClientRect();
    this.back.hidden = !this.stack.length;
    this.name.textContent = graph.title;
    this.about.textContent = this.about.title = graph.about;
    this.canvas.setAttribute("aria-label", `${graph.title}: ${graph.about}`);
    this.blocks = blocksOf(graph, graph.kernels ? "none" : this.by, this.open);
    const aspect = width > 10 ? width / Math.max(height, 100) : 0.8;
    this.layout = layOut(this.blocks, aspect);
    this.painter.mapImage = null;
    for (const edge of this.layout.edges) {
      const across = edge.points.map((point) => point[0]);
      edge.left = Math.min(...across);
      edge.right = Math.max(...across);
      edge.top = edge.points[0][1];
      edge.bottom = edge.points[edge.points.length - 1][1];
    }
    this.rowOfNode = new Map();
    this.blocks.forEach((block, b) => block.rows.forEach((row) => {
      row.block = block;
      for (const id of row.unit.nodes) this.rowOfNode.set(id, row);
    }));
    let y;
    for (const block of this.blocks) {
      y = 0;
      for (const row of block.rows) { row.dy = y; y += row.height; }
      block.far = [];
    }
    for (const [s, t] of this.layout.named) this.blocks[t].far.push(this.blocks[s].rows[this.blocks[s].rows.length - 1]);
    if (fit) this.begin();
    this.draw();
  }

  size() {
    // Gives the canvas a pixel per pixel of the screen; true where it has to be painted again.
    const { width, height } = this.canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
    const wide = Math.round(width * ratio), high = Math.round(height * ratio);
    if (wide === this.canvas.width && high === this.canvas.height) return false;
    Object.assign(this.canvas, { width: wide, height: high });
    return Boolean(this.layout);
  }

  fit() {
    const { width, height } = this.canvas.getBoundingClientRect();
    if (width < 10) return;
    const scale = Math.min((width - 36) / Math.max(this.layout.width, 1), (height - 48) / Math.max(this.layout.height, 1), 1.15);
    this.camera = { scale, x: (width - this.layout.width * scale) / 2, y: Math.min(48, Math.max(26, (height - this.layout.height * scale) / 2)) };
  }

  begin() {
    // The first view: all of it where that can be read, else the top.
    this.fit();
    const { width } = this.canvas.getBoundingClientRect();
    if (width < 10 || this.camera.scale >= LEGIBLE) return;
    const first = this.blocks.reduce((best, block) => block.y < best.y ? block : best, this.blocks[0]);
    const middle = width / 2 - (first.x + first.width / 2) * READABLE;
    this.camera = { scale: READABLE, y: 30, x: this.layout.width * READABLE > width ? Math.min(20, middle) : middle };
  }

  centre(row) {
    const { width, height } = this.canvas.getBoundingClientRect(), camera = this.camera;
    camera.scale = Math.max(camera.scale, 0.7);
    camera.x = width / 2 - (row.block.x + row.block.width / 2) * camera.scale;
    camera.y = height / 2 - (row.block.y + row.dy + row.height / 2) * camera.scale;
    this.draw();
  }

  reveal(id) {
    // Brings a node into view, out of its group if need be.
    const row = this.rowOfNode.get(id);
    if (!row) return;
    const { width, height } = this.canvas.getBoundingClientRect(), { x, y, scale } = this.camera;
    const left = row.block.x * scale + x, top = (row.block.y + row.dy) * scale + y;
    if (scale < TINY || left < 0 || top < 20 || left + row.block.width * scale > width || top + ROW * scale > height) this.centre(row);
  }

  at(event) {
    const area = this.canvas.getBoundingClientRect(), { x, y, scale } = this.camera;
    const px = (event.clientX - area.left - x) / scale, py = (event.clientY - area.top - y) / scale;
    for (const block of this.blocks) {
      if (px < block.x || px > block.x + block.width || py < block.y || py > block.y + block.height) continue;
      return block.rows.find((row) => py <= block.y + row.dy + row.height) || null;
    }
    return null;
  }

  zoom(factor, cx, cy) {
    const camera = this.camera, scale = Math.min(4, Math.max(0.01, camera.scale * factor));
    camera.x = cx - (cx - camera.x) * scale / camera.scale;
    camera.y = cy - (cy - camera.y) * scale / camera.scale;
    camera.scale = scale;
    this.draw();
  }

  listen() {
    const canvas = this.canvas;
    let drag = null;
    const fingers = new Map();
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const area = canvas.getBoundingClientRect();
      if (event.shiftKey) { this.camera.x -= event.deltaY; this.draw(); return; }
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.clientX - area.left, event.clientY - area.top);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, y: event.clientY, moved: fingers.size > 0 };
      fingers.set(event.pointerId, drag);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) {
        const row = this.at(event);
        if (row !== this.hover) { this.hover = row; canvas.classList.toggle("over", !!row); this.draw(); }
        return;
      }
      if (fingers.size === 2) { this.pinch(fingers, event); return; }
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      Object.assign(drag, { x: event.clientX, y: event.clientY, moved: true });
      canvas.classList.add("dragging");
      this.pan(dx, dy);
    });
    const release = (event) => {
      canvas.classList.remove("dragging");
      fingers.delete(event.pointerId);
      if (event.type === "pointerup" && drag && !drag.moved && !this.jump(event)) this.page.pick(this, this.at(event));
      drag = fingers.size ? Object.assign([...fingers.values()][0], { moved: true }) : null;
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("pointerleave", () => { if (this.hover) { this.hover = null; this.draw(); } });
    canvas.addEventListener("dblclick", (event) => { if (!this.enter(this.at(event))) { this.fit(); this.draw(); } });
  }

  enter(row) {
    // Unfolds a group, folds it again, or shows the graph inside of a node.
    if (row && row.unit.label) this.unfold(row.unit.key);
    else if (row && row.node && row.node.g) this.show(row.node.g[0]);
    else if (row && row.unit.inside) this.refold(row.unit.inside);
    else return false;
    return true;
  }

  key(event) {
    // Keys of the panel that has the focus.
    const { page } = this, { width, height } = this.canvas.getBoundingClientRect(), isOwn = page.selected !== null && page.selected.panel === this;
    const zoom = { "+": 1.25, "=": 1.25, "-": 0.8 }[event.key], pan = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (zoom) this.zoom(zoom, width / 2, height / 2);
    else if (event.key === "Enter" && !isOwn) page.select(this, this.blocks[0].rows[0].unit.nodes[0]);
    else if (event.key === "Enter") this.enter(this.rowOfNode.get(page.selected.id));
    else if (event.key === "Backspace" && this.stack.length) this.show(this.stack.pop(), true);
    else if (pan && (event.shiftKey || !isOwn)) { event.stopPropagation(); this.pan(...pan); }
    else return;
    event.preventDefault();
  }

  pan(dx, dy) {
    this.camera.x += dx;
    this.camera.y += dy;
    this.draw();
  }

  pinch(fingers, event) {
    // Two fingers: their distance zooms, their middle pans.
    const area = this.canvas.getBoundingClientRect(), [a, b] = fingers.values();
    const before = Math.hypot(a.x - b.x, a.y - b.y), mx = (a.x + b.x) / 2, my = (a.y + b.y) / 2;
    Object.assign(fingers.get(event.pointerId), { x: event.clientX, y: event.clientY, moved: true });
    this.pan((a.x + b.x) / 2 - mx, (a.y + b.y) / 2 - my);
    if (before > 5) this.zoom(Math.hypot(a.x - b.x, a.y - b.y) / before, (a.x + b.x) / 2 - area.left, (a.y + b.y) / 2 - area.top);
  }

  unfold(key) { this.open.add(key); this.rebuild(false); }
  refold(key) { this.open.delete(key); this.rebuild(false); }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.paint(); });
  }

  paint() { this.painter.paint(); }

  mapBox() {
    // Where the small map of everything lies; null while everything is in view.
    const { width, height } = this.canvas.getBoundingClientRect(), { x, y, scale } = this.camera;
    const inView = x >= 0 && y >= 0 && x + this.layout.width * scale <= width && y + this.layout.height * scale <= height;
    if (inView || width < 420 || height < 240) return null;
    const side = Math.min(MAP, 0.15 * width, 0.2 * height);
    const fit = Math.min(side / Math.max(this.layout.width, 1), 1.6 * side / Math.max(this.layout.height, 1));
    const wide = Math.max(12, this.layout.width * fit), high = Math.max(12, this.layout.height * fit);
    return { fit, wide, high, left: width - wide - MAP_MARGIN - 6, top: height - high - MAP_MARGIN - 6 };
  }

  jump(event) {
    // Moves to the place in the small map; false where the pointer is not on it.
    const map = this.mapBox(), area = this.canvas.getBoundingClientRect();
    if (!map) return false;
    const mx = event.clientX - area.left - map.left, my = event.clientY - area.top - map.top;
    if (mx < -6 || my < -6 || mx > map.wide + 6 || my > map.high + 6) return false;
    this.camera.x = area.width / 2 - mx / map.fit * this.camera.scale;
    this.camera.y = area.height / 2 - my / map.fit * this.camera.scale;
    this.draw();
    return true;
  }
}
