// The answer and the first figure: the effective horizon of a game, and the steps that deep RL needs on it.

if (D.answer) {
  const { algorithm, area, simpler } = D.answer, [before, after] = D.answer.sentence.split("effective horizon");
  const [middle, end] = after.split("AUC");
  $("#sentence").append(before, term("effective horizon"), middle, term("AUC"), end);
  $("#simpler").append(`Take one game that ${label(algorithm)} solves and one that it does not. In ${share(area[0])} of such pairs the solved game has `
    + `the smaller effective horizon. With simpler properties instead: ${simpler.map(s => `${s.label} ${share(s.area[0])}`).join(", ")}.`);
} else {
  $("#sentence").append("Not enough games are analysed to say how well the ", term("effective horizon"), " tells what deep RL solves.");
}
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const rounded = D.rows.filter(row => !row.own && row.caveat).length;
const numOwn = D.rows.filter(row => row.own).length;
$("#counts").append(`${D.counts.paper} games with `, term("sticky actions"), `, ${D.counts.built} of them enumerated and analysed`, ...(rounded ? [` (in ${rounded} of these ties are decided by `, term("rounding"), ")"] : []),
  `; ${plural(D.counts.runs, "run")} of our own`
  + (D.counts.failed ? `, ${D.counts.failed.toLocaleString("en")} of them failed` : "")
  + (numOwn ? `; ${plural(numOwn, "environment")} of yours` : "") + ". This file holds all of its data and loads nothing.");

const shownMark = ours => ours ? $("#show-ours").checked : $("#show-paper").checked;

function drawHorizon() {
  const property = $("#horizon-choice").value, panels = D.horizon.panels[property];
  $("#f-horizon").replaceChildren();
  for (const name of D.horizon.algorithms) {
    const [correlation, area] = D.horizon.estimates.find(each => each.label === property).found[name];
    const panel = make("div"), title = make("p", { class: "chart-title" }, algorithmName(name),
      make("small", {}, term("AUC"), ` ${area ? num(area[0]) : "–"}, `, term("rank correlation"), ` ${correlation ? num(correlation[0]) : "–"}`));
    panel.append(title);
    $("#f-horizon").append(panel);
    drawHorizonPanel(panel, property, panels, name);
  }
}

function drawHorizonPanel(panel, property, panels, name) {
  const [low, high] = panels.range, colour = byName[name].colour;
  const c = chart(panel, {
    x: panels.range, y: STEP_RANGE, logx: true, logy: true, yticks: STEP_TICKS, xlabel: `log A · ${property}`, ylabel: "steps to solve",
    description: `${label(name)}: steps to solve against ${property}; arrow keys go through the games`,
    xticks: [1, 2, 5, 10, 20, 50, 100, 200, 500].filter(value => value >= low && value <= high).map(value => [value, value]),
  });
  railAbove(c, true);
  if (panels.trend[name]) drawTrend(c, panels.trend[name], colour);
  addMarks(c, panels.marks[name].filter(mark => shownMark(mark[3])).map(([id, x, y, ours, lane]) => ({
    id, x, y: onAxis(y, lane), shape: SHAPES[byId[id].suite], colour, hollow: !ours,
    text: `${byId[id].title}: log A · H̄ = ${num(x, 1)}, ${saidSteps(byId[id], name, y, ours)} (${whose(ours)})`,
  })));
}

// The fitted line and its interval, below the rail.
function drawTrend(c, trend, colour) {
  const top = c.Y(AXIS.rail[0]), width = c.right - c.left, height = c.bottom - top;
  const inside = svgElement("svg", { x: c.left, y: top, width, height, viewBox: `${c.left} ${top} ${width} ${height}`, "aria-hidden": "true" });
  const line = values => trend.x.map((x, i) => `${c.X(x).toFixed(1)},${c.Y(values[i]).toFixed(1)}`);
  inside.append(svgElement("path", { d: `M${[...line(trend.high), ...line(trend.low).reverse()].join("L")}Z`, fill: colour, "fill-opacity": .1 }));
  inside.append(svgElement("path", { d: `M${line(trend.steps).join("L")}`, fill: "none", stroke: colour, "stroke-width": 1.6, "stroke-opacity": .8 }));
  c.svg.append(inside);
}

// A line for each property, and on it the estimate and the interval of each algorithm.
function drawEstimates(which, heading, low) {
  const found = D.horizon.estimates, panel = make("div", {}, make("h4", {}, heading)), n = found.length;
  $("#f-estimates").append(panel);
  const c = chart(panel, {
    x: [low, 1], y: [n - .5, -.5], left: 130, height: 290, description: panel.textContent,
    yticks: found.map((each, line) => [line, each.label]),
  });
  const edge = c.Y(found.filter(each => each.is_horizon).length - .5);
  c.svg.append(svgElement("line", { x1: 0, x2: c.right, y1: edge, y2: edge, stroke: "var(--soft)" }));
  found.forEach((each, line) => D.horizon.algorithms.forEach((name, place) => {
    const estimate = each.found[name][which], y = line + .24 * (place - 1), colour = byName[name].colour;
    if (estimate == null || estimate[0] == null) return;
    const ends = { x1: c.X(Math.max(low, estimate[1])), x2: c.X(estimate[2]), y1: c.Y(y), y2: c.Y(y) };
    c.svg.append(svgElement("line", { ...ends, stroke: colour, "stroke-width": 2, "stroke-opacity": .45 }));
    addMarks(c, [{ x: Math.max(low, estimate[0]), y, colour, text: `${each.label}, ${label(name)}: ${between(estimate)}` }]);
  }));
}

if (D.horizon.rows) {
  $("#horizon-choice").append(...Object.keys(D.horizon.panels).map(property => make("option", {}, property)));
  $("#horizon-choice").value = D.horizon.shown;
  for (const id of ["horizon-choice", "show-paper", "show-ours"]) $("#" + id).addEventListener("input", drawHorizon);
  markKey($("#horizon-key"), [make("span", {}, "across: ", term("log A · H̄")), make("span", {}, "line and band: ", term("fit")), swatch("var(--rail)", `not solved within ${D.budget.toLocaleString("en")} steps${numOwn ? ", or in your runs" : ""}`)]);
  drawHorizon();
  drawEstimates(0, [term("rank correlation", "Rank correlation"), " with the steps (1: perfect order)"], 0);
  drawEstimates(1, [term("AUC"), " of “solved or not” (0.5: chance, 1: perfect)"], .45);
} else note($("#f-horizon"), "No game is analysed.");
