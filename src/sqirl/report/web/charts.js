// Small charts in SVG: axes, dots with a text, learning curves.

const W = 420, H = 300, LEFT = 52, BOTTOM = 34, TOP = 10, RIGHT = 10;
const tip = $("#tip");

function svgElement(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  if (text != null) element.textContent = text;
  return element;
}

// Show `text` beside the element while it is hovered or focused. A click or Enter opens the card of the environment `id`.
function hint(element, text, id) {
  const show = (x, y) => {
    tip.textContent = text;
    tip.style.opacity = 1;
    tip.style.left = Math.min(x + 12, innerWidth - 240) + "px";
    tip.style.top = y + 12 + "px";
  };
  const hide = () => { tip.style.opacity = 0; };
  element.addEventListener("mouseenter", e => show(e.clientX, e.clientY));
  element.addEventListener("mouseleave", hide);
  element.addEventListener("focus", () => { const box = element.getBoundingClientRect(); show(box.left, box.top); });
  element.addEventListener("blur", hide);
  if (id && byId[id]) {
    element.addEventListener("click", () => openCard(id));
    element.addEventListener("keydown", e => e.key === "Enter" && openCard(id));
  }
}

function scale(low, high, from, to, log) {
  const f = log ? Math.log10 : x => x, a = f(low), b = f(high) === a ? a + 1 : f(high);
  return value => from + (f(value) - a) / (b - a) * (to - from);
}

function ticks(low, high, log) {
  const out = [];
  if (log) {
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) out.push(10 ** e);
    const every = Math.ceil(out.length / 7);
    return out.filter((value, i) => value >= low && value <= high && i % every === 0);
  }
  const unit = 10 ** Math.floor(Math.log10((high - low) / 2 || 1));
  const step = unit * ([1, 2, 5, 10].find(m => (high - low) / (unit * m) <= 6) || 10);
  for (let value = Math.ceil(low / step) * step; value <= high + 1e-9; value += step) out.push(+value.toPrecision(6));
  return out;
}

// An empty chart with its axes; `X` and `Y` of the result map values to coordinates.
function chart(parent, { x, y, logx, logy, xlabel, ylabel, diagonal, label, yticks }) {
  const description = label || `${ylabel} against ${xlabel}`;
  const svg = svgElement("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": description });
  const X = scale(...x, LEFT, W - RIGHT, logx), Y = scale(...y, H - BOTTOM, TOP, logy);
  for (const value of ticks(...x, logx)) {
    const name = value >= 1e7 ? "1e" + Math.round(Math.log10(value)) : logx || value >= 1e4 ? steps(value) : value;
    svg.append(svgElement("line", { class: "axis", x1: X(value), x2: X(value), y1: TOP, y2: H - BOTTOM }));
    svg.append(svgElement("text", { x: X(value), y: H - BOTTOM + 14, "text-anchor": "middle" }, name));
  }
  for (const [value, name] of yticks || ticks(...y, logy).map(value => [value, logy ? steps(value) : value])) {
    svg.append(svgElement("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: Y(value), y2: Y(value) }));
    svg.append(svgElement("text", { x: LEFT - 5, y: Y(value) + 4, "text-anchor": "end" }, name));
  }
  const middle = (H - BOTTOM) / 2;
  svg.append(svgElement("text", { x: (LEFT + W) / 2, y: H - 3, "text-anchor": "middle" }, xlabel));
  svg.append(svgElement("text", { x: 12, y: middle, transform: `rotate(-90 12 ${middle})`, "text-anchor": "middle" }, ylabel));
  if (diagonal) {
    const a = Math.max(x[0], y[0]), b = Math.min(x[1], y[1]);
    svg.append(dashed(X(a), Y(a), X(b), Y(b), "4 4"));
  }
  parent.append(svg);
  return { svg, X, Y };
}

function dashed(x1, y1, x2, y2, pattern) {
  return svgElement("line", { x1, y1, x2, y2, stroke: "var(--soft)", "stroke-dasharray": pattern });
}

function dots(c, points) {
  for (const p of points) {
    const dot = svgElement("circle", {
      class: "dot", cx: c.X(p.x), cy: c.Y(p.y), r: p.r || 4.5, fill: p.fill, "fill-opacity": p.opacity || .8,
      tabindex: 0, role: "img", "aria-label": p.text,
    });
    hint(dot, p.text, p.id);
    c.svg.append(dot);
  }
}

// Learning curves of one environment: the median and the range over seeds of each algorithm, as D holds them.
function drawCurves(parent, row, { logx = true } = {}) {
  const runs = Object.entries(row.runs).filter(([, outcome]) => outcome.curve), lines = row.lines;
  if (!runs.length) return;
  const xs = runs.flatMap(([, outcome]) => outcome.curve.steps);
  const ys = runs.flatMap(([, outcome]) => [...outcome.curve.low, ...outcome.curve.high]).concat(lines.optimal ?? [], lines.random ?? []);
  const low = Math.min(...ys), high = Math.max(...ys), pad = (high - low) * .06 || 1;
  const c = chart(parent, {
    x: logx ? [Math.max(1, Math.min(...xs) * .9), Math.max(...xs) * 1.1] : [0, Math.max(...xs) * 1.02],
    y: [low - pad, high + pad], logx, xlabel: "steps", ylabel: "return", label: `Learning curves of ${row.title}`,
  });
  for (const [value, pattern] of [[lines.optimal, "6 4"], [lines.random, "2 4"]])
    if (value != null) c.svg.append(dashed(LEFT, c.Y(value), W - RIGHT, c.Y(value), pattern));
  for (const [name, outcome] of runs) drawCurve(c, name, outcome.curve);
}

function drawCurve(c, name, { steps: grid, median, low, high }) {
  const colour = byName[name].colour, line = values => grid.map((x, i) => `${c.X(x)},${c.Y(values[i])}`);
  if (grid.length > 1) {
    const range = [...line(high), ...line(low).reverse()];
    c.svg.append(svgElement("path", { d: `M${range.join("L")}Z`, fill: colour, "fill-opacity": .15 }));
    c.svg.append(svgElement("path", { d: `M${line(median).join("L")}`, fill: "none", stroke: colour, "stroke-width": 1.8 }));
  }
  if (grid.length <= 12) dots(c, grid.map((x, i) => ({
    x, y: median[i], r: 3, fill: colour, text: `${label(name)} after ${steps(x)} steps: ${num(median[i], 3)}`,
  })));
}
