// Small charts in SVG: axes, rails, and marks that can be hovered, focused and walked through with the arrow keys.

// The width of a chart is that of its place when it is drawn, within these limits, so that texts have the same size everywhere.
const NARROWEST = 260, WIDEST = 600, H = 300, LEFT = 46, BOTTOM = 38, TOP = 22, RIGHT = 6;

function svgElement(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  if (text != null) element.textContent = text;
  return element;
}

function scale(low, high, from, to, log) {
  const f = log ? Math.log10 : x => x, a = f(low), b = f(high) === a ? a + 1 : f(high);
  return value => from + (f(value) - a) / (b - a) * (to - from);
}

function ticks(low, high, log) {
  const out = [];
  if (log) {
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) out.push(10 ** e);
    const every = Math.ceil(out.length / 6), inside = out.filter(value => value >= low && value <= high);
    if (inside.length > 1) return inside.filter((value, i) => i % every === 0);
    return out.flatMap(value => [value, 2 * value, 5 * value]).filter(value => value >= low && value <= high);
  }
  const unit = 10 ** Math.floor(Math.log10((high - low) / 2 || 1));
  const step = unit * ([1, 2, 5, 10].find(m => (high - low) / (unit * m) <= 6) || 10);
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) out.push(+value.toPrecision(6));
  return out;
}
const tickName = value => Math.abs(value) >= 1e7 ? "1e" + Math.round(Math.log10(value)) : Math.abs(value) >= 1e4 ? steps(value) : String(value);

// An empty chart with its axes; `X` and `Y` of the result map values to coordinates.
function chart(parent, { x, y, logx, logy, xlabel, ylabel, description, xticks, yticks, left = LEFT, height = H }) {
  const width = Math.max(NARROWEST, Math.min(WIDEST, parent.clientWidth || 0)), right = width - RIGHT, bottom = height - BOTTOM;
  const svg = svgElement("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": description });
  const X = scale(...x, left, right, logx), Y = scale(...y, bottom, TOP, logy);
  for (const [value, name] of xticks || ticks(...x, logx).map(value => [value, tickName(value)])) {
    svg.append(svgElement("line", { class: "axis", x1: X(value), x2: X(value), y1: TOP, y2: bottom }));
    svg.append(svgElement("text", { x: X(value), y: bottom + 15, "text-anchor": "middle" }, name));
  }
  for (const [value, name] of yticks || ticks(...y, logy).map(value => [value, tickName(value)])) {
    svg.append(svgElement("line", { class: "axis", x1: left, x2: right, y1: Y(value), y2: Y(value) }));
    svg.append(svgElement("text", { x: left - 6, y: Y(value) + 4, "text-anchor": "end" }, name));
  }
  if (xlabel) svg.append(svgElement("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, xlabel));
  if (ylabel) svg.append(svgElement("text", { x: 0, y: 12 }, ylabel));
  parent.append(svg);
  return { svg, X, Y, left, right, top: TOP, bottom };
}

// The axis of steps of all scatter plots, with the rail of what is not solved at its end.
const AXIS = D.steps_axis, STEP_RANGE = [AXIS.least, AXIS.rail[1]];
const RAIL_MIDDLE = Math.sqrt(AXIS.rail[0] * AXIS.rail[1]);
const STEP_TICKS = [[1e4, "10k"], [1e5, "100k"], [1e6, "1M"]];
const onAxis = (value, lane) => value ?? AXIS.lanes[lane];

function railAbove(c, text) {
  const y = c.Y(AXIS.rail[1]), height = c.Y(AXIS.rail[0]) - y;
  c.svg.append(svgElement("rect", { class: "rail", x: c.left, y, width: c.right - c.left, height }));
  if (text) c.svg.append(svgElement("text", { x: c.left - 6, y: y + height / 2, "text-anchor": "end" }, "not"),
    svgElement("text", { x: c.left - 6, y: y + height / 2 + 12, "text-anchor": "end" }, "solved"));
}
function railBeside(c) {
  const x = c.X(AXIS.rail[0]), width = c.X(AXIS.rail[1]) - x;
  c.svg.append(svgElement("rect", { class: "rail", x, y: c.top, width, height: c.bottom - c.top }));
  c.svg.append(svgElement("text", { x: x + width / 2, y: c.bottom + 15, "text-anchor": "middle" }, "not solved"));
}

function dashed(x1, y1, x2, y2, pattern) {
  return svgElement("line", { x1, y1, x2, y2, stroke: "var(--soft)", "stroke-dasharray": pattern });
}

const SHAPES = Object.fromEntries(Object.keys(D.suites).map((suite, i) => [suite, ["circle", "triangle", "square", "diamond"][i]]));
// A circle, a triangle, a square or a diamond of radius r around a place.
function shapeElement(shape, x, y, r, attributes) {
  if (shape === "triangle")
    return svgElement("path", { d: `M${x},${y - 1.15 * r}L${x + 1.1 * r},${y + .85 * r}H${x - 1.1 * r}Z`, ...attributes });
  if (shape === "square") return svgElement("rect", { x: x - .9 * r, y: y - .9 * r, width: 1.8 * r, height: 1.8 * r, ...attributes });
  if (shape === "diamond") return svgElement("path", { d: `M${x},${y - 1.3 * r}l${1.3 * r},${1.3 * r}l${-1.3 * r},${1.3 * r}l${-1.3 * r},${-1.3 * r}Z`, ...attributes });
  return svgElement("circle", { cx: x, cy: y, r, ...attributes });
}

// Marks of a chart. Only one of them can be reached with Tab; the arrow keys go on from there.
function addMarks(c, marks) {
  for (const { x, y, shape, r = 4, colour, hollow, text, id } of marks) {
    const first = !c.svg.querySelector(".mark");
    c.svg.append(shapeElement(shape, c.X(x), c.Y(y), r, {
      class: "mark", fill: hollow ? "var(--bg)" : colour, "fill-opacity": hollow ? .35 : .85, stroke: colour, "stroke-width": 1.3,
      tabindex: first ? 0 : -1, role: id ? "button" : "img", "aria-label": text, "data-tip": "", ...(id ? { "data-id": id } : {}),
    }));
  }
}
document.addEventListener("click", event => {
  const mark = event.target instanceof Element && event.target.closest(".mark[data-id]");
  if (mark) openCard(mark.dataset.id);
});
document.addEventListener("keydown", event => {
  const mark = event.target instanceof Element && event.target.closest(".mark");
  if (!mark) return;
  if ((event.key === "Enter" || event.key === " ") && mark.dataset.id) { event.preventDefault(); return openCard(mark.dataset.id); }
  const marks = [...mark.ownerSVGElement.querySelectorAll(".mark")], place = marks.indexOf(mark);
  const next = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1, Home: 0, End: marks.length - 1 }[event.key];
  if (next == null || !marks[next]) return;
  event.preventDefault();
  mark.setAttribute("tabindex", -1);
  marks[next].setAttribute("tabindex", 0);
  marks[next].focus();
});

// What the shapes and fills of marks mean, for the suites that are on the page.
function markKey(place, extra = []) {
  const entry = (shape, hollow, text) => make("span", {}, svgOf(shape, hollow), text);
  const svgOf = (shape, hollow) => {
    const svg = svgElement("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" });
    svg.append(shapeElement(shape, 6, 6, 4, { fill: hollow ? "none" : "var(--soft)", stroke: "var(--soft)", "stroke-width": 1.3 }));
    return svg;
  };
  const used = Object.keys(D.suites).filter(suite => D.rows.some(row => row.suite === suite));
  place.append(entry("circle", true, "the paper's runs"), entry("circle", false, "our runs"),
    ...used.map(suite => entry(SHAPES[suite], true, D.suites[suite])), ...extra);
}
const swatch = (colour, text) => make("span", {}, make("i", { class: "swatch", style: `background:${colour}` }), text);
const whose = ours => ours ? "our runs" : "the paper's runs";
