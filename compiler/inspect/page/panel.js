// One canvas with one graph: draws, pans, zooms, and tells what is under the pointer.
"use strict";

const TINY = 0.28;  // below this scale boxes have no text
const READABLE = 0.6;
const MAP = 92, MAP_MARGIN = 10;

class Panel {
  constructor(page, number, graphIndex) {
    Object.assign(this, { page, number, stack: [], by: "none", open: new Set(), hover: null, related: new Set() });
    this.canvas = h("canvas", { tabIndex: 0 });
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
    this.page.resize();
  }

  rebuild(fit) {
    const graph = this.graph, { width, height } = this.canvas.getBoundingClientRect();
    this.back.hidden = !this.stack.length;
    this.name.textContent = graph.title;
    this.about.textContent = this.about.title = graph.about;
    this.blocks = blocksOf(graph, graph.kernels ? "none" : this.by, this.open);
    const aspect = width > 10 ? width / Math.max(height, 100) : 0.8;
    this.layout = layOut(this.blocks, aspect);
    this.mapImage = null;
    for (const edge of this.layout.edges) {
      const across = edge.points.map((point) => point[0]);
      edge.left = Math.min(...across);
      edge.right = Math.max(...across);
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
    const { width, height } = this.canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
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
    if (width < 10 || this.camera.scale >= READABLE) return;
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
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const area = canvas.getBoundingClientRect();
      if (event.shiftKey) { this.camera.x -= event.deltaY; this.draw(); return; }
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.clientX - area.left, event.clientY - area.top);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, y: event.clientY, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) {
        const row = this.at(event);
        if (row !== this.hover) { this.hover = row; canvas.classList.toggle("over", !!row); this.draw(); }
        return;
      }
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      Object.assign(drag, { x: event.clientX, y: event.clientY, moved: true });
      canvas.classList.add("dragging");
      this.camera.x += dx;
      this.camera.y += dy;
      this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      canvas.classList.remove("dragging");
      if (drag && !drag.moved && !this.jump(event)) this.page.pick(this, this.at(event));
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => { if (this.hover) { this.hover = null; this.draw(); } });
    canvas.addEventListener("dblclick", (event) => {
      const row = this.at(event);
      if (row && row.unit.label) this.unfold(row.unit.key);
      else if (row && row.unit.inside) this.refold(row.unit.inside);
      else if (row && row.node && row.node.g) this.show(row.node.g[0]);
      else { this.fit(); this.draw(); }
    });
  }

  unfold(key) { this.open.add(key); this.rebuild(false); }
  refold(key) { this.open.delete(key); this.rebuild(false); }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.paint(); });
  }

  paint() {
    const context = this.canvas.getContext("2d"), ratio = devicePixelRatio || 1, { x, y, scale } = this.camera;
    const style = this.page.style;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(scale * ratio, 0, 0, scale * ratio, x * ratio, y * ratio);
    const area = { left: -x / scale, top: -y / scale, right: (this.canvas.width / ratio - x) / scale, bottom: (this.canvas.height / ratio - y) / scale };
    const hover = this.hover && this.hover.block;
    context.lineWidth = Math.max(1.1, 0.6 / scale);
    let strong = [];
    context.strokeStyle = style.edge;
    context.beginPath();
    for (const edge of this.layout.edges) {
      const from = this.blocks[edge.from], to = this.blocks[edge.to];
      if (from === hover || to === hover) { strong.push(edge.points); continue; }
      const points = edge.points, end = points[points.length - 1];
      if (end[1] < area.top || points[0][1] > area.bottom || edge.right < area.left || edge.left > area.right) continue;
      this.curve(context, points);
    }
    context.stroke();
    if (hover) {
      for (const [s, t] of this.layout.named) {
        const from = this.blocks[s], to = this.blocks[t];
        if (from === hover || to === hover) strong.push([[from.x + from.width / 2, from.y + from.height], [to.x + to.width / 2, to.y]]);
      }
      context.strokeStyle = style.hit;
      context.beginPath();
      for (const points of strong) this.curve(context, points);
      context.stroke();
    }
    context.fillStyle = hover ? style.hit : style.edge;
    if (scale > TINY) for (const edge of this.layout.edges) {
      const [ex, ey] = edge.points[edge.points.length - 1];
      if (ey < area.top || ey > area.bottom || ex < area.left || ex > area.right) continue;
      context.fillStyle = this.blocks[edge.from] === hover || this.blocks[edge.to] === hover ? style.hit : style.edge;
      context.beginPath();
      context.moveTo(ex - 3.5, ey - 7); context.lineTo(ex + 3.5, ey - 7); context.lineTo(ex, ey); context.fill();
    }
    this.painted = 0;
    for (const block of this.blocks) {
      if (block.x > area.right || block.x + block.width < area.left || block.y > area.bottom || block.y + block.height < area.top) continue;
      for (const row of block.rows) this.paintRow(context, block, row, scale, style);
      if (block.far.length && scale > TINY) {
        context.font = `10px ${MONO}`;
        context.fillStyle = style.soft;
        const names = [...new Set(block.far.map((row) => row.unit.label ? short(row.title, 16) : row.node.input ? row.title : row.label))];
        context.fillText("↳ " + short(names.join(", "), 40), block.x + 2, block.y - 5);
      }
    }
    this.paintMap(context, area, ratio, style);
  }

  mapBox() {
    // Where the small map of everything lies; null while everything is in view.
    const { width, height } = this.canvas.getBoundingClientRect(), { x, y, scale } = this.camera;
    const inView = x >= 0 && y >= 0 && x + this.layout.width * scale <= width && y + this.layout.height * scale <= height;
    if (inView || width < 160) return null;
    const fit = Math.min(MAP / Math.max(this.layout.width, 1), 1.6 * MAP / Math.max(this.layout.height, 1));
    const wide = Math.max(12, this.layout.width * fit), high = Math.max(12, this.layout.height * fit);
    return { fit, wide, high, left: width - wide - MAP_MARGIN - 6, top: height - high - MAP_MARGIN - 6 };
  }

  paintMap(context, area, ratio, style) {
    const map = this.mapBox();
    if (!map) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = style.map;
    context.strokeStyle = style.edge;
    context.lineWidth = 0.7;
    context.beginPath();
    context.roundRect(map.left - 6, map.top - 6, map.wide + 12, map.high + 12, 6);
    context.fill();
    context.stroke();
    context.drawImage(this.mapOf(map, ratio, style.dark), map.left, map.top, map.wide + 1, map.high + 1);
    const clip = (value, low, high) => Math.min(high, Math.max(low, value));
    const left = clip(area.left, 0, this.layout.width), right = clip(area.right, 0, this.layout.width);
    const top = clip(area.top, 0, this.layout.height), bottom = clip(area.bottom, 0, this.layout.height);
    context.strokeStyle = style.hit;
    context.lineWidth = 1.4;
    context.strokeRect(map.left + left * map.fit - 1, map.top + top * map.fit - 1, (right - left) * map.fit + 2, (bottom - top) * map.fit + 2);
  }

  mapOf(map, ratio, dark) {
    // The blocks of the small map, drawn once and kept: moving about does not change them.
    const key = `${map.fit} ${ratio} ${dark}`;
    if (this.mapImage && this.mapImage.key === key) return this.mapImage.canvas;
    const canvas = h("canvas", { width: Math.ceil((map.wide + 1) * ratio), height: Math.ceil((map.high + 1) * ratio) });
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    for (const block of this.blocks) {
      const row = block.rows[0], family = data.families[this.graph.nodes[row.unit.nodes[0]].f];
      context.fillStyle = (dark ? family.night : family.day)[1];
      context.fillRect(block.x * map.fit, block.y * map.fit, Math.max(1, block.width * map.fit), Math.max(1, block.height * map.fit));
    }
    this.mapImage = { key, canvas };
    return canvas;
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

  curve(context, points) {
    context.moveTo(points[0][0], points[0][1]);
    for (let k = 1; k < points.length; k++) {
      const [x0, y0] = points[k - 1], [x1, y1] = points[k];
      if (Math.abs(x0 - x1) < 0.5) { context.lineTo(x1, y1); continue; }
      const bend = (y0 + y1) / 2;
      context.bezierCurveTo(x0, bend, x1, bend, x1, y1);
    }
  }

  paintRow(context, block, row, scale, style) {
    const page = this.page, top = block.y + row.dy, family = data.families[row.node ? row.node.f : this.graph.nodes[row.unit.nodes[0]].f];
    const [fill, ink] = style.dark ? family.night : family.day;
    const isSelected = page.selected && page.selected.panel === this && row.unit.nodes.includes(page.selected.id);
    const isHit = page.hits && row.unit.nodes.some((id) => page.hits.has(`${this.graphIndex}:${id}`));
    const isRelated = row.unit.nodes.some((id) => this.related.has(id));
    this.painted++;
    context.globalAlpha = page.hits && !isHit && !isSelected ? 0.22 : 1;
    context.fillStyle = row.unit.label ? style.group : fill;
    context.strokeStyle = isSelected || isHit ? style.hit : isRelated ? style.accent : ink;
    context.lineWidth = (isSelected || isRelated ? 3 : row.mark || isHit ? 2.2 : 1) * Math.max(1, 0.5 / scale);
    context.beginPath();
    context.roundRect(block.x, top, block.width, row.height, row.node && row.node.input ? ROW / 2 : 5);
    context.fill();
    context.stroke();
    if (scale > TINY) row.unit.label ? this.groupText(context, block, row, top, style, ink) : this.rowText(context, block, row, top, style, ink);
    context.globalAlpha = 1;
  }

  groupText(context, block, row, top, style, ink) {
    context.fillStyle = ink;
    context.fillRect(block.x + 0.5, top + 4, 3.5, row.height - 8);
    context.fillStyle = style.ink;
    context.font = `600 12px ${MONO}`;
    context.fillText(row.title, block.x + PAD + 3, top + 17);
    context.font = `10px ${MONO}`;
    context.fillStyle = style.soft;
    context.fillText(row.about, block.x + PAD + 3, top + 33);
    context.textAlign = "right";
    context.fillText(row.count, block.x + block.width - PAD, top + 17);
    context.textAlign = "left";
  }

  rowText(context, block, row, top, style, ink) {
    let x = block.x + PAD;
    const base = top + ROW / 2 + 4;
    context.font = `10px ${MONO}`;
    context.fillStyle = style.soft;
    context.fillText(row.label, x, base);
    x += row.label.length * SMALL + 6;
    context.font = `600 12px ${MONO}`;
    context.fillStyle = style.ink;
    context.fillText(row.title, x, base);
    x += row.title.length * CHAR + 6;
    context.font = `10px ${MONO}`;
    context.lineWidth = 0.8;
    for (const pill of row.pills) {
      const width = pill.length * SMALL + 10;
      context.beginPath();
      context.roundRect(x, top + 4, width, 16, 8);
      context.fillStyle = style.pill;
      context.strokeStyle = style.edge;
      context.fill();
      context.stroke();
      context.fillStyle = style.ink;
      context.fillText(pill, x + 5, base - 0.5);
      x += width + 4;
    }
    let right = block.x + block.width - PAD;
    if (row.mark) {
      const width = row.mark.length * SMALL + 10;
      right -= width;
      context.beginPath();
      context.roundRect(right, top + 4, width, 16, 8);
      context.fillStyle = ink;
      context.fill();
      context.fillStyle = style.card;
      context.fillText(row.mark, right + 5, base - 0.5);
      right -= 6;
    }
    context.textAlign = "right";
    context.fillStyle = style.soft;
    context.fillText(row.spec, right, base);
    context.textAlign = "left";
  }
}
