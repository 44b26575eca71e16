// Learning curves: the median and the range over seeds of each algorithm, drawn when they come into view.

function drawCurves(parent, row, { logx = true } = {}) {
  const runs = Object.entries(row.runs).filter(([, outcome]) => outcome.curve), { optimal, random } = row.lines;
  if (!runs.length) return note(parent, "It was not evaluated.");
  const c = chart(parent, {
    x: row.axes.steps, y: row.axes.returns, logx, xticks: ticks(...row.axes.steps, logx).map(value => [value, steps(value)]), xlabel: "steps", ylabel: "return", height: 240, description: `Learning curves of ${row.title}: return against steps`,
  });
  for (const [value, pattern] of [[optimal, "6 4"], [random, "2 4"]])
    if (value != null) c.svg.append(dashed(c.left, c.Y(value), c.right, c.Y(value), pattern));
  for (const [name, outcome] of runs) drawCurve(c, name, outcome.curve, logx);
}

function drawCurve(c, name, { steps: grid, median, low = median, high = median }, logx) {
  const colour = byName[name].colour, X = x => logx && x <= 0 ? c.left : c.X(x);
  const line = values => grid.map((x, i) => `${X(x).toFixed(1)},${c.Y(values[i]).toFixed(1)}`);
  if (grid.length > 1) {
    const range = [...line(high), ...line(low).reverse()];
    c.svg.append(svgElement("path", { d: `M${range.join("L")}Z`, fill: colour, "fill-opacity": .13 }));
    c.svg.append(svgElement("path", { class: "curve", d: `M${line(median).join("L")}`, fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-linejoin": "round" }));
  } else { // a single evaluation: its range is a line, its median a mark
    c.svg.append(svgElement("line", { x1: X(grid[0]), x2: X(grid[0]), y1: c.Y(low[0]), y2: c.Y(high[0]), stroke: colour, "stroke-width": 2, "stroke-opacity": .4 }));
  }
  const last = grid.length - 1, shown = grid.length <= 12 ? grid.keys() : [last];
  for (const i of shown) {
    const found = { ...c, X };
    addMarks(found, [{ x: grid[i], y: median[i], r: grid.length > 1 ? 2.6 : 4, colour, text: `${label(name)} after ${steps(grid[i])} steps: ${short(median[i])}`
      + (low[i] < high[i] ? ` (${short(low[i])} to ${short(high[i])})` : "") }]);
  }
}

function curvePanel(row, options) {
  const panel = make("div", { class: "curve-panel" }, make("h4", {}, row.title));
  whenNear(panel, () => drawCurves(panel, row, options));
  return panel;
}

// Figure 5: your own environments first; a few at a time
const FIRST_CURVES = 12, MORE_CURVES = 48;
const withRuns = [...D.rows.filter(row => row.own && wasRun(row)), ...D.rows.filter(row => !row.own && wasRun(row))];
let chosenCurves = withRuns, numCurves = 0;
function addCurves(count) {
  const next = chosenCurves.slice(numCurves, numCurves + count), left = chosenCurves.length - numCurves - next.length;
  $("#all-curves").append(...next.map(row => curvePanel(row)));
  numCurves += next.length;
  $("#more-curves").textContent = `Show ${Math.min(MORE_CURVES, left)} more (${left.toLocaleString("en")} left)`;
  $("#more-curves").hidden = left === 0;
  $("#curve-count").textContent = `${numCurves.toLocaleString("en")} of ${chosenCurves.length.toLocaleString("en")}`;
}
function startCurves() {
  const text = $("#curve-q").value.toLowerCase();
  [chosenCurves, numCurves] = [withRuns.filter(row => row.id.toLowerCase().includes(text)), 0];
  $("#all-curves").replaceChildren();
  addCurves(FIRST_CURVES);
}
$("#more-curves").addEventListener("click", () => addCurves(MORE_CURVES));
$("#curve-q").addEventListener("input", startCurves);
startCurves();
if (!withRuns.length) note($("#all-curves"), "No runs yet: sqirl sweep easy.");

// Figure 4: whole games
$("#full-curves").append(...D.full_length.map(row => curvePanel(row, { logx: false })));
if (!D.full_length.length) note($("#full-curves"), "No runs yet: sqirl sweep atari-long.");
else fill("#t-full", ["Game", ["algorithm", "text"], ["setting", "text"], "seeds", term("steps"), term("random", "random play"), "last evaluations", "best", "above random"],
  D.full_length_runs.map(r => [r.game, [algorithmName(r.algorithm), "text"], [r.setting + (r.variant === "ours" ? "" : ` (variant ${r.variant})`), "text"], r.seeds, steps(r.steps),
    num(r.random), r.last.map(mean => num(mean)).join(", "), num(r.best), r.above == null ? "" : r.above ? "yes" : "no"]));
