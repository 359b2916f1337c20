"use strict";
// Draws the timeline of a report on its canvas. The data stand in the page as JSON:
// layers [[name, begin, end]], kinds [[words, colour]], units [{name, begin, length, kind, layer}]
// with begins as differences, queues [{name, at, level}] with cycles as differences.
(function () {
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const canvas = document.getElementById("timeline");
  const tip = document.getElementById("timeline-tip");
  const pen = canvas.getContext("2d");
  const sums = (steps) => { let now = 0; return steps.map((step) => (now += step)); };
  for (const unit of data.units) unit.at = sums(unit.begin);
  for (const queue of data.queues) queue.time = sums(queue.at);

  const LEFT = 110, LAYER = 22, UNIT = 44, QUEUE = 30, GAP = 6, AXIS = 22;
  const height = LAYER + GAP + data.units.length * (UNIT + GAP)
    + data.queues.length * (QUEUE + GAP) + AXIS;
  let from = 0, to = data.cycles, width = 0;

  const x = (cycle) => LEFT + (cycle - from) / (to - from) * (width - LEFT);
  const cycleAt = (px) => from + (px - LEFT) / (width - LEFT) * (to - from);
  const top = (row) => row < data.units.length
    ? LAYER + GAP + row * (UNIT + GAP)
    : LAYER + GAP + data.units.length * (UNIT + GAP) + (row - data.units.length) * (QUEUE + GAP);
  // The index of the first element of an ascending array that is more than a value.
  function after(array, value) {
    let low = 0, high = array.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (array[middle] <= value) low = middle + 1; else high = middle;
    }
    return low;
  }
  const number = (value) => Math.round(value).toLocaleString("en-US");

  function drawLayers() {
    pen.font = "10px sans-serif";
    pen.textBaseline = "middle";
    data.layers.forEach(([name, begin, end], index) => {
      if (end <= from || begin >= to) return;
      const left = Math.max(x(begin), LEFT), right = Math.min(x(end), width);
      pen.fillStyle = index % 2 ? "#e4e7eb" : "#cbd2d9";
      pen.fillRect(left, 0, right - left, LAYER);
      if (right - left > pen.measureText(name).width + 6) {
        pen.fillStyle = "#1f2933";
        pen.fillText(name, (left + right - pen.measureText(name).width) / 2, LAYER / 2);
      }
    });
  }

  function drawUnit(unit, row) {
    const y = top(row);
    pen.fillStyle = "#f4f5f7";
    pen.fillRect(LEFT, y, width - LEFT, UNIT);
    const columns = new Map(); // slices thinner than a pixel, gathered by column
    for (let i = Math.max(after(unit.at, from) - 1, 0); i < unit.at.length; i++) {
      const begin = unit.at[i], end = begin + unit.length[i];
      if (begin >= to) break;
      if (end <= from) continue;
      const left = Math.max(x(begin), LEFT), right = Math.min(x(end), width);
      if (right - left >= 1.5) {
        pen.fillStyle = data.kinds[unit.kind[i]][1];
        pen.fillRect(left, y, right - left - (right - left > 4 ? 0.5 : 0), UNIT);
      } else {
        const column = Math.floor(left);
        const share = columns.get(column) || {};
        share[unit.kind[i]] = (share[unit.kind[i]] || 0) + right - left;
        columns.set(column, share);
      }
    }
    for (const [column, share] of columns) {
      let base = y + UNIT;
      const whole = Math.max(Object.values(share).reduce((a, b) => a + b), 1);
      for (const [kind, part] of Object.entries(share)) {
        const tall = part / whole * UNIT;
        pen.fillStyle = data.kinds[kind][1];
        pen.fillRect(column, base - tall, 1, tall);
        base -= tall;
      }
    }
  }

  function drawQueue(queue, row) {
    const y = top(row), first = Math.max(after(queue.time, from) - 1, 0);
    let most = 1;
    for (const level of queue.level) if (level > most) most = level;
    pen.strokeStyle = "#e4e7eb";
    pen.strokeRect(LEFT + 0.5, y + 0.5, width - LEFT - 1, QUEUE - 1);
    pen.strokeStyle = "#52606d";
    pen.beginPath();
    const height = (level) => y + QUEUE - 1 - level / most * (QUEUE - 3);
    let level = queue.time.length && queue.time[0] <= from ? queue.level[first] : 0;
    pen.moveTo(LEFT, height(level));
    let low = Infinity, high = -Infinity, column = -1;
    for (let i = after(queue.time, from); i < queue.time.length && queue.time[i] < to; i++) {
      const px = Math.floor(x(queue.time[i]));
      if (px !== column) { // one stroke a column is enough
        if (column >= 0) { pen.lineTo(column, height(low)); pen.lineTo(column, height(high)); }
        if (column >= 0) pen.lineTo(column, height(level));
        pen.lineTo(px, height(level));
        low = high = level;
        column = px;
      }
      level = queue.level[i];
      low = Math.min(low, level);
      high = Math.max(high, level);
    }
    if (column >= 0) { pen.lineTo(column, height(low)); pen.lineTo(column, height(high)); }
    pen.lineTo(Math.max(column, LEFT), height(level));
    pen.lineTo(width, height(level));
    pen.stroke();
  }

  function drawNames() {
    pen.fillStyle = "#1f2933";
    pen.font = "12px sans-serif";
    data.units.forEach((unit, row) => pen.fillText(unit.name, 0, top(row) + UNIT / 2));
    pen.font = "10px sans-serif";
    data.queues.forEach((queue, index) => {
      pen.fillText(queue.name, 0, top(data.units.length + index) + QUEUE / 2);
    });
  }

  function drawAxis() {
    const wanted = (to - from) / ((width - LEFT) / 110);
    const power = Math.pow(10, Math.floor(Math.log10(wanted)));
    const step = Math.max([1, 2, 5, 10].map((m) => m * power).find((s) => s >= wanted), 1);
    pen.fillStyle = "#52606d";
    pen.font = "10px sans-serif";
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const text = number(at);
      const px = Math.min(x(at), width - pen.measureText(text).width);
      pen.fillText(text, px, height - AXIS / 2);
    }
  }

  function draw() {
    const scale = window.devicePixelRatio || 1;
    width = canvas.clientWidth;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.height = height + "px";
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    drawLayers();
    data.units.forEach(drawUnit);
    data.queues.forEach((queue, index) => drawQueue(queue, data.units.length + index));
    drawNames();
    drawAxis();
    document.getElementById("timeline-window").textContent =
      "cycles " + number(from) + " to " + number(to);
    canvas.dataset.drawn = from + ":" + to;
  }

  function show(begin, end) {
    const span = Math.min(Math.max(end - begin, 20), data.cycles);
    from = Math.min(Math.max(begin, 0), data.cycles - span);
    to = from + span;
    draw();
  }

  function zoom(factor, cycle) {
    const share = (cycle - from) / (to - from), span = (to - from) * factor;
    show(cycle - share * span, cycle + (1 - share) * span);
  }

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    const cycle = cycleAt(px);
    if (px < LEFT) return "";
    if (py < LAYER) {
      const layer = data.layers.find(([, begin, end]) => begin <= cycle && cycle < end);
      return layer ? layer[0] + ": " + number(layer[2] - layer[1]) + " cycles" : "";
    }
    for (const [row, unit] of data.units.entries()) {
      if (py < top(row) || py >= top(row) + UNIT) continue;
      const i = after(unit.at, cycle) - 1;
      if (i < 0 || cycle >= unit.at[i] + unit.length[i]) return "";
      const layer = data.names[unit.layer[i]] || "";
      return layer + " " + data.kinds[unit.kind[i]][0] + ": cycles " + number(unit.at[i]) + " to "
        + number(unit.at[i] + unit.length[i]) + ", " + number(unit.length[i]);
    }
    for (const [index, queue] of data.queues.entries()) {
      const y = top(data.units.length + index);
      if (py < y || py >= y + QUEUE) continue;
      const i = after(queue.time, cycle) - 1;
      return queue.name + ": " + (i < 0 ? 0 : queue.level[i]) + " tokens";
    }
    return "";
  }

  let grabbed = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoom(Math.pow(1.0015, event.deltaY), cycleAt(Math.max(event.clientX - box.left, LEFT)));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    grabbed = { at: event.clientX, from: from, to: to };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { grabbed = null; });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("pointermove", (event) => {
    if (grabbed) {
      const moved = (grabbed.at - event.clientX) / (width - LEFT) * (grabbed.to - grabbed.from);
      show(grabbed.from + moved, grabbed.to + moved);
      return;
    }
    const words = under(event);
    tip.hidden = !words;
    tip.textContent = words;
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - 320) + "px";
    tip.style.top = event.clientY + 14 + "px";
  });
  canvas.addEventListener("dblclick", () => show(0, data.cycles));
  document.getElementById("timeline-in").addEventListener("click", () => zoom(0.5, (from + to) / 2));
  document.getElementById("timeline-out").addEventListener("click", () => zoom(2, (from + to) / 2));
  document.getElementById("timeline-all").addEventListener("click", () => show(0, data.cycles));
  for (const link of document.querySelectorAll("[data-begin]")) {
    link.addEventListener("click", () => {
      const begin = Number(link.dataset.begin), end = Number(link.dataset.end);
      show(begin - (end - begin) / 20, end + (end - begin) / 20);
    });
  }
  window.addEventListener("resize", draw);
  draw();
})();
