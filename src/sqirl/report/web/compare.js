// Algorithms against each other, and our results against the paper's: Figures 2 and 3, Tables 2 and 3, the bound.

// Figure 3: a mark for each game; the rails hold the games that only one of the two solves.
function drawPair({ x, y, marks, neither }) {
  const panel = make("div", {}, make("p", { class: "chart-title" }, make("span", {}, algorithmName(y), " against ", algorithmName(x))));
  $("#f-pairs").append(panel);
  const c = chart(panel, {
    x: STEP_RANGE, y: STEP_RANGE, logx: true, logy: true, xticks: STEP_TICKS, yticks: STEP_TICKS, height: 400, ylabel: `${label(y)}: steps to solve`,
    xlabel: `${label(x)}: steps to solve`, description: `${label(y)} against ${label(x)}, steps to solve; arrow keys go through the games`,
  });
  railAbove(c, true);
  railBeside(c);
  c.svg.append(dashed(c.X(AXIS.least), c.Y(AXIS.least), c.X(AXIS.rail[0]), c.Y(AXIS.rail[0]), "4 4"));
  const corner = c.X(RAIL_MIDDLE), text = { x: corner, "text-anchor": "middle" };
  c.svg.append(svgElement("text", { ...text, y: c.Y(RAIL_MIDDLE) - 1 }, neither[0] + neither[1]), svgElement("text", { ...text, y: c.Y(RAIL_MIDDLE) + 11 }, "neither"));
  addMarks(c, marks.map(([id, xs, ys, ours, lane]) => ({
    id, x: onAxis(xs, lane), y: onAxis(ys, lane), shape: SHAPES[byId[id].suite], colour: ours ? "var(--fg)" : "var(--soft)", hollow: !ours,
    text: `${byId[id].title}: ${saidSteps(byId[id], y, ys, ours)}, ${saidSteps(byId[id], x, xs, ours)} (${whose(ours)})`,
  })));
}
for (const pair of D.figure_3) drawPair(pair);
markKey($("#pairs-key"), [make("span", {}, "dashed: equal steps")]);

// Table 3
const compared = c => [interval(c.correlation), interval(c.ratio), c.both, c.only_first, c.only_second, c.neither];
fill("#t-pairs", ["Pair", ["of", "text"], term("rank correlation"), term("median ratio"), "both solve", "only the first", "only the second", "neither"],
  D.ours.pairs.flatMap((pair, i) => [["ours", pair], ["paper", D.paper.pairs[i]], ["paper, same games", D.paper_where_ours[i]]].map(
    ([whose, c], first) => [first ? "" : `${label(c.first)} and ${label(c.second)}`, [whose, "text"], ...compared(c)])));

// Table 2
const solvedOf = (summary, name) => summary.solved[name] ? summary.solved[name].join(" of ") : "";
const others = D.compared_with.map(label).join(" and ");
fill("#t-solved", ["", "ours", "paper"], [
  ...NAMES.map(name => [algorithmName(name), solvedOf(D.ours, name), solvedOf(D.paper, name)]),
  [`${label(D.subject)}, where ${others} both solve`, share(D.ours.where_both), share(D.paper.where_both)],
  [`${label(D.subject)}, where neither does`, share(D.ours.where_neither), share(D.paper.where_neither)],
]);

// How far our results agree with the paper's
fill("#t-agree", ["", term("solved", "solved or not agrees"), `within ${D.within_factor} times the steps`, term("median ratio", "median of ours / paper's"), term("open")],
  D.agreement.map(c => [algorithmName(c.algorithm), `${c.agreeing} of ${c.answered}`, `${c.within} of ${c.both}`, interval(c.ratio), c.open.length]));
$("#agree-note").textContent = `Over the games whose runs answer whether the median of five seeds solves within ${D.budget.toLocaleString("en")} steps. `
  + "A game that was run for fewer steps, seeds or settings, and is not solved, is open.";
const titleOf = id => byId[id] ? byId[id].title : id;
fill("#t-differ", ["Environment", ["algorithm", "text"], "ours", "paper", ["likely cause", "text"]], D.agreement.flatMap(c => c.differing.map(
  d => [titleOf(d.id), [algorithmName(c.algorithm), "text"], steps(d.ours), steps(d.paper), [d.cause, "text long"]])));
fill("#t-open", ["Environment", ["algorithm", "text"], ["what is missing", "text"], "paper"], D.agreement.flatMap(c => c.open.map(
  d => [titleOf(d.id), [algorithmName(c.algorithm), "text"], [d.missing, "text long"], steps(d.paper)])));
fill("#t-variants", ["Environment", ["algorithm", "text"], "our variant", "that of the authors' code"], D.variants.map(
  d => [titleOf(d.id), [algorithmName(d.algorithm), "text"], steps(d.ours), steps(d.paper)]));

// Figure 2: a row for each range of k, and in it a square for each environment
function drawLeastK(place, groups, description) {
  const parent = $(place), colour = byName[D.figure_2.algorithm].colour, counts = groups.map(group => group.solved.length + group.unsolved.length);
  if (!greatest(counts)) return note(parent, "No environment is analysed.");
  const longest = greatest(counts);
  const c = chart(parent, {
    x: [0, Math.max(longest + 1, 10)], y: [groups.length - .5, -.5], xlabel: "environments", description, height: 270, left: 46, ylabel: "k",
    yticks: groups.map((group, line) => [line, group.label]),
  });
  const size = Math.min(5, .42 * (c.X(1) - c.X(0)));
  groups.forEach((group, line) => addMarks(c, [...group.solved, ...group.unsolved].map((id, i) => ({
    x: i + 1, y: line, r: Math.max(1.6, size), shape: "square", id, colour: i < group.solved.length ? colour : "var(--soft)", hollow: i >= group.solved.length,
    text: `${byId[id].title}: 95 % with k = ${byId[id].approx_k ?? "> " + byId[id].searched_k}, exactly optimal with ${orMore(byId[id])}; `
      + `${label(D.figure_2.algorithm)} ${i < group.solved.length ? "solves" : "does not solve"} it`,
  }))));
}
drawLeastK("#f-mink", D.figure_2.approximate, "The least k for 95 % of the optimal return");
drawLeastK("#f-exact", D.figure_2.exact, "The least k for exactly the optimal return");
$("#least-k-key").append(swatch(byName[D.figure_2.algorithm].colour, `the paper's ${label(D.figure_2.algorithm)} solves it`),
  make("span", {}, make("i", { class: "swatch", style: "border:1.5px solid var(--soft)" }), "it does not"));

// The theorem's bound and the steps that are needed
const { algorithm: bounded, marks: boundMarks, range: boundRange } = D.bound;
if (boundMarks.length) {
  const c = chart($("#f-bound"), {
    x: boundRange, y: STEP_RANGE, logx: true, logy: true, yticks: STEP_TICKS, xlabel: "bound in steps, constants dropped", ylabel: `${label(bounded)}: steps to solve`,
    description: `${label(bounded)}: steps to solve against the bound; arrow keys go through the games`,
  });
  railAbove(c, true);
  addMarks(c, boundMarks.map(([id, x, y, ours, lane]) => ({
    id, x, y: onAxis(y, lane), shape: SHAPES[byId[id].suite], colour: byName[bounded].colour, hollow: !ours,
    text: `${byId[id].title}: bound ${x.toExponential(1)}, ${saidSteps(byId[id], bounded, y, ours)} (${whose(ours)})`,
  })));
} else note($("#f-bound"), "No game is analysed.");
