// Draws the graph of a panel: what is in view, and as much of it as can be seen at that scale.
"use strict";

const TINY = 0.28;  // below this scale boxes have no text
const DOTS = 0.16;  // below this one they have no outlines, and edges are straight

class Painter {
  constructor(panel) {
    Object.assign(this, { panel, mapImage: null });
  }

  paint() {
    const { panel } = this, { canvas, camera: { x, y, scale } } = panel, ratio = devicePixelRatio || 1;
    const context = canvas.getContext("2d"), style = panel.page.style;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.setTransform(scale * ratio, 0, 0, scale * ratio, x * ratio, y * ratio);
    const area = { left: -x / scale, top: -y / scale, right: (canvas.width / ratio - x) / scale, bottom: (canvas.height / ratio - y) / scale };
    const hover = panel.hover && panel.hover.block;
    this.edges(context, area, scale, style, hover);
    const seen = panel.blocks.filter((block) => block.x <= area.right && block.x + block.width >= area.left && block.y <= area.bottom && block.y + block.height >= area.top);
    panel.painted = seen.reduce((count, block) => count + block.rows.length, 0);
    if (scale <= TINY) this.boxes(context, seen, scale, style);
    else for (const block of seen) this.block(context, block, scale, style);
    this.map(context, area, ratio, style);
  }

  edges(context, area, scale, style, hover) {
    const { layout, blocks } = this.panel, touches = (edge) => blocks[edge.from] === hover || blocks[edge.to] === hover;
    const inView = layout.edges.filter((edge) => edge.bottom >= area.top && edge.top <= area.bottom && edge.right >= area.left && edge.left <= area.right);
    const draw = scale < DOTS ? this.line : this.curve;
    context.lineWidth = scale < DOTS ? 0.5 / scale : Math.max(1.1, 0.6 / scale);
    context.strokeStyle = style.edge;
    context.beginPath();
    for (const edge of inView) {
      // From far away an edge between neighbours is hidden by their boxes.
      if (scale < DOTS && (edge.bottom - edge.top) * scale < 8 && (edge.right - edge.left) * scale < 8) continue;
      if (!hover || !touches(edge)) draw(context, edge.points);
    }
    context.stroke();
    if (hover) this.strongEdges(context, inView.filter(touches), hover, style);
    if (scale <= TINY) return;
    for (const strong of hover ? [false, true] : [false]) {
      context.fillStyle = strong ? style.hit : style.edge;
      context.beginPath();
      for (const edge of inView) {
        if (hover && touches(edge) !== strong) continue;
        const [ex, ey] = edge.points[edge.points.length - 1];
        context.moveTo(ex - 3.5, ey - 7); context.lineTo(ex + 3.5, ey - 7); context.lineTo(ex, ey); context.closePath();
      }
      context.fill();
    }
  }

  strongEdges(context, edges, hover, style) {
    // The edges of the block under the pointer, those that are only named otherwise included.
    const { layout, blocks } = this.panel;
    context.strokeStyle = style.hit;
    context.beginPath();
    for (const edge of edges) this.curve(context, edge.points);
    for (const [s, t] of layout.named) {
      const from = blocks[s], to = blocks[t];
      if (from === hover || to === hover) this.curve(context, [[from.x + from.width / 2, from.y + from.height], [to.x + to.width / 2, to.y]]);
    }
    context.stroke();
  }

  line(context, points) {
    context.moveTo(points[0][0], points[0][1]);
    context.lineTo(points[points.length - 1][0], points[points.length - 1][1]);
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

  coloursOf(row) {
    const { panel } = this, family = data.families[row.node ? row.node.f : panel.graph.nodes[row.unit.nodes[0]].f];
    return panel.page.style.dark ? family.night : family.day;
  }

  stateOf(row) {
    // How a row stands to what is selected and searched.
    const { panel } = this, { page } = panel, nodes = row.unit.nodes;
    return {
      selected: page.selected !== null && page.selected.panel === panel && nodes.includes(page.selected.id),
      hit: page.hits !== null && nodes.some((id) => page.hits.has(`${panel.graphIndex}:${id}`)),
      related: panel.related.size > 0 && nodes.some((id) => panel.related.has(id)),
    };
  }

  boxes(context, blocks, scale, style) {
    // Rows without text, all of one colour at once; what is selected or found comes on top.
    const { page, related } = this.panel, byColour = new Map(), marked = [], plain = page.hits === null;
    const watched = !plain || page.selected !== null || related.size > 0, outlined = scale >= DOTS;
    for (const block of blocks) for (const row of block.rows) {
      const [fill, ink] = this.coloursOf(row);
      if (!byColour.has(ink)) byColour.set(ink, { fill, rows: [] });
      byColour.get(ink).rows.push([block, row]);
      const state = watched ? this.stateOf(row) : null;
      if (state && (state.selected || state.hit || state.related)) marked.push([block, row, state.selected || state.hit]);
    }
    context.globalAlpha = plain ? (outlined ? 1 : 0.75) : 0.2;
    context.lineWidth = Math.max(1, 0.5 / scale);
    for (const [ink, { fill, rows }] of byColour) {
      context.beginPath();
      for (const [block, row] of rows) context.rect(block.x, block.y + row.dy, block.width, row.height);
      context.fillStyle = outlined ? fill : ink;
      context.fill();
      context.strokeStyle = ink;
      if (outlined) context.stroke();
    }
    context.globalAlpha = 1;
    for (const [block, row, isHit] of marked) {
      const grow = Math.max(0, 2 / scale - row.height / 2);
      context.fillStyle = isHit ? style.hit : style.accent;
      context.fillRect(block.x - grow, block.y + row.dy - grow, block.width + 2 * grow, row.height + 2 * grow);
    }
  }

  block(context, block, scale, style) {
    for (const row of block.rows) this.row(context, block, row, scale, style);
    if (!block.far.length) return;
    context.font = `10px ${MONO}`;
    context.fillStyle = style.soft;
    block.farText ||= "↳ " + short([...new Set(block.far.map((row) => row.unit.label ? short(row.title, 16) : row.node.input ? row.title : row.label))].join(", "), 40);
    context.fillText(block.farText, block.x + 2, block.y - 5);
  }

  row(context, block, row, scale, style) {
    const top = block.y + row.dy, [fill, ink] = this.coloursOf(row), state = this.stateOf(row);
    const isMarked = state.selected || state.hit;
    context.globalAlpha = this.panel.page.hits && !isMarked ? 0.22 : 1;
    context.fillStyle = row.unit.label ? style.group : fill;
    context.strokeStyle = isMarked ? style.hit : state.related ? style.accent : ink;
    context.lineWidth = (state.selected || state.related ? 3 : row.mark || state.hit ? 2.2 : 1) * Math.max(1, 0.5 / scale);
    context.beginPath();
    context.roundRect(block.x, top, block.width, row.height, row.node && row.node.input ? ROW / 2 : 5);
    context.fill();
    context.stroke();
    row.unit.label ? this.groupText(context, block, row, top, style, ink) : this.rowText(context, block, row, top, style, ink);
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

  map(context, area, ratio, style) {
    const map = this.panel.mapBox();
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
    const left = clip(area.left, 0, this.panel.layout.width), right = clip(area.right, 0, this.panel.layout.width);
    const top = clip(area.top, 0, this.panel.layout.height), bottom = clip(area.bottom, 0, this.panel.layout.height);
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
    for (const block of this.panel.blocks) {
      const row = block.rows[0], family = data.families[this.panel.graph.nodes[row.unit.nodes[0]].f];
      context.fillStyle = (dark ? family.night : family.day)[1];
      context.fillRect(block.x * map.fit, block.y * map.fit, Math.max(1, block.width * map.fit), Math.max(1, block.height * map.fit));
    }
    this.mapImage = { key, canvas };
    return canvas;
  }
}
