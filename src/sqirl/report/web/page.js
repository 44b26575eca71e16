// The page, section by section.

const failed = D.counts.failed ? `, ${D.counts.failed} failed` : "";
$("#lead").textContent = `${D.rows.length} environments with sticky actions, ${D.counts.built} of them enumerated exactly; `
  + `${D.counts.runs.toLocaleString("en")} runs of our own${failed}. This file holds all of its data.`;
const note = (parent, text) => parent.insertAdjacentHTML("beforeend", `<p class="soft">${text}</p>`);
const legend = D.algorithms.map(a => `<span style="background:${a.colour}"></span>${escaped(a.label)}`).join("");
document.querySelectorAll(".legend").forEach(place => { place.outerHTML = legend; });
$("#suite").insertAdjacentHTML("beforeend", D.suites.map(suite => `<option>${suite}</option>`).join(""));

// Tables 2 and 3 of the paper, and how far our results agree with the paper's ------------------------------------------
const solvedOf = (summary, name) => summary.solved[name] ? summary.solved[name].join(" of ") : "";
const others = D.compared_with.map(label).join(" and ");
$("#t-solved").innerHTML = tableOf(["Algorithm", "ours", "paper"], [
  ...NAMES.map(name => [label(name), solvedOf(D.ours, name), solvedOf(D.paper, name)]),
  [`${label(D.subject)} solves, where ${others} both do`, share(D.ours.sqirl_where_both), share(D.paper.sqirl_where_both)],
  ["… where neither does", share(D.ours.sqirl_where_neither), share(D.paper.sqirl_where_neither)],
]);
const compared = (names, c) => [...names, interval(c.correlation), interval(c.ratio), c.both, c.only_first, c.only_second, c.neither];
$("#t-pairs").innerHTML = tableOf(
  ["Pair", "of", "correlation", "median ratio", "both", "only 1st", "only 2nd", "neither"],
  D.ours.pairs.flatMap((pair, i) => [["ours", pair], ["paper, same rows", D.paper_where_ours[i]], ["paper", D.paper.pairs[i]]].map(
    ([whose, c]) => compared([`${label(c.first)}–${label(c.second)}`, whose], c))),
);
$("#t-agree").innerHTML = tableOf(
  ["Algorithm", "rank correlation", "median of ours / paper's", "both solve", "only ours", "only the paper's", "neither",
    `within ${D.within_factor} times`, "correlation of log steps", "solved or not agrees", "whole search", "open"],
  D.agreement.map(c => [...compared([label(c.algorithm)], c), `${c.within} of ${c.both}`, interval(c.log_correlation),
    `${c.agreeing} of ${c.answered}`, c.complete, c.open.length]),
);
const listed = (place, header, rows) => {
  if (rows.length) $(place).innerHTML = tableOf(header, rows);
  else note($(place), "None.");
};
const titleOf = id => escaped(byId[id] ? byId[id].title : id);
listed("#t-differ", ["Environment", "algorithm", "ours", "paper", "likely cause"], D.agreement.flatMap(c => c.differing.map(
  d => [titleOf(d.id), label(c.algorithm), steps(d.ours), steps(d.paper), escaped(d.cause)])));
listed("#t-open", ["Environment", "algorithm", "what there is", "paper"], D.agreement.flatMap(c => c.open.map(
  d => [titleOf(d.id), label(c.algorithm), escaped(d.missing), steps(d.paper)])));
listed("#t-variants", ["Environment", "algorithm", "ours", "paper's variant"], D.variants.map(
  d => [titleOf(d.id), label(d.algorithm), steps(d.ours), steps(d.paper)]));

// Figure 3: the sample complexities of two algorithms --------------------------------------------------------------------
const style = point => point.ours ? { fill: "var(--ours)" } : { fill: "var(--soft)", opacity: .45, r: 3.5 };
const whose = point => point.ours ? "ours" : "paper";
for (const { x, y, points } of D.figure_3) {
  const panel = document.createElement("div"), range = [7e3, 6e6];
  panel.className = "panel";
  panel.innerHTML = `<h3>${label(y)} against ${label(x)}</h3>`;
  $("#f-pairs").append(panel);
  const c = chart(panel, {
    x: range, y: range, logx: true, logy: true, xlabel: label(x) + " steps", ylabel: label(y) + " steps", diagonal: true,
  });
  dots(c, points.map(p => ({
    ...p, ...style(p), text: `${p.title} (${whose(p)}): ${label(y)} ${steps(p.y)}, ${label(x)} ${steps(p.x)}`,
  })));
}

// Figure 2: a line for each k, and on it a dot for each environment --------------------------------------------------------
const orMore = (k, row) => k ?? "more than " + row.searched_k;
function drawLeastK(parent, groups, description) {
  if (!groups.length) return note(parent, "No environment is enumerated.");
  const longest = Math.max(...groups.map(group => group.solved.length + group.unsolved.length));
  const c = chart(parent, {
    x: [0, longest + 1], y: [groups.length - .5, -.5], xlabel: "environments", ylabel: "k", label: description,
    yticks: groups.map((group, line) => [line, group.k ?? "more"]),
  });
  groups.forEach((group, line) => dots(c, [...group.solved, ...group.unsolved].map((id, i) => ({
    x: i + 1, y: line, r: 3.6, id, fill: i < group.solved.length ? "var(--solved)" : "var(--unsolved)",
    text: `${byId[id].title}: 95 % with k = ${orMore(byId[id].approx_k, byId[id])}, exactly optimal with ${orMore(byId[id].min_k, byId[id])}`,
  }))));
}
drawLeastK($("#f-mink"), D.figure_2.approximate, "The least k for 95 % of the optimal return");
drawLeastK($("#f-exact"), D.figure_2.exact, "The least k for exactly the optimal return");

// Theory and practice -----------------------------------------------------------------------------------------------------
function drawTheory(parent, points, xlabel, logx) {
  if (!points.length) return note(parent, "No environment is both enumerated and solved.");
  const xs = points.map(p => p.x), highest = Math.max(...xs), ylabel = label(D.subject) + " steps";
  const x = logx ? [Math.min(...xs) / 3, highest * 3] : [0, highest * 1.05];
  dots(chart(parent, { x, y: [5e3, 6e6], logx, logy: true, xlabel, ylabel }), points.map(p => ({
    ...p, fill: style(p).fill,
    text: `${p.title}: ${xlabel} ${logx ? p.x.toExponential(1) : num(p.x, 1)}, ${label(D.subject)} ${steps(p.y)} (${whose(p)})`,
  })));
}
drawTheory($("#f-h"), D.theory.horizon, "effective horizon", false);
drawTheory($("#f-bound"), D.theory.bound, "bound in steps", true);

// Figures 5 and 4: learning curves ----------------------------------------------------------------------------------------
function drawAllCurves(parent, rows, options, otherwise) {
  for (const row of rows.filter(wasRun)) {
    const panel = document.createElement("div");
    panel.className = "panel";
    panel.innerHTML = `<h3>${escaped(row.title)}</h3>`;
    drawCurves(panel, row, options);
    parent.append(panel);
  }
  if (!parent.children.length) note(parent, otherwise);
}
drawAllCurves($("#all-curves"), [...D.rows, ...D.others], {}, "No runs yet: sqirl sweep easy.");
drawAllCurves($("#full-curves"), D.full_length, { logx: false }, "No runs yet: sqirl sweep atari-long.");
if (D.full_length_runs.length) $("#t-full").innerHTML = tableOf(
  ["Game", "algorithm", "variant", "setting", "seeds", "steps", "random play", "last evaluations", "best", "above random"],
  D.full_length_runs.map(r => [escaped(r.game), label(r.algorithm), r.variant, escaped(r.setting), r.seeds, steps(r.steps),
    num(r.random), r.last.map(mean => num(mean)).join(", "), num(r.best), r.above == null ? "" : r.above ? "yes" : "no"]),
);

// The table of all environments ---------------------------------------------------------------------------------------
const LAST = 1e18; // values that are not known are sorted behind all others
const complexity = name => [
  label(name),
  row => (row.runs[name] ? ourSteps(row.runs[name]) : " ") + " / " + paperSteps(row, name),
  row => row.runs[name] ? row.runs[name].steps ?? LAST / 100 : LAST / 10 + (row.paper_solved[name] ?? LAST / 100),
];
const bestReturn = name => [
  label(name) + " return",
  row => `${num(row.runs[name]?.return) || " "} / ${num(row.paper_returns[name])}`,
  row => -(row.runs[name]?.return ?? -LAST),
];
const COLUMNS = [ // name, what is shown, what is sorted by
  ["environment", row => row.title, row => row.id],
  ["state", row => wasRun(row) ? row.state + ", run" : row.state, row => row.state],
  ["T", row => row.horizon, row => row.horizon],
  ["states", row => row.states?.toLocaleString("en") ?? "", row => row.states ?? LAST],
  ["optimal", row => num(row.optimal ?? row.paper_returns.optimal), row => row.optimal ?? row.paper_returns.optimal],
  ["min k", row => row.optimal == null ? "" : row.min_k ?? "> " + row.searched_k, row => row.min_k ?? LAST],
  ["H̄", row => num(row.H, 1), row => row.H ?? LAST],
  ...NAMES.map(complexity),
  ...NAMES.map(bestReturn),
];
let sortedBy = -1, direction = 1;

$("#rows thead").innerHTML = "<tr>" + COLUMNS.map(
  ([name], i) => `<th scope="col" aria-sort="none"><button data-col="${i}">${name}</button></th>`).join("") + "</tr>";

function chosenRows() {
  const text = $("#q").value.toLowerCase(), suite = $("#suite").value, state = $("#state").value;
  const rows = D.rows.filter(row => row.id.toLowerCase().includes(text) && (!suite || row.suite === suite)
    && (!state || (state === "run" ? wasRun(row) : row.state === state)));
  if (sortedBy < 0) return rows;
  const valueOf = COLUMNS[sortedBy][2];
  return rows.sort((a, b) => direction * (valueOf(a) < valueOf(b) ? -1 : valueOf(a) > valueOf(b) ? 1 : 0));
}

function drawRows() {
  const rows = chosenRows();
  $("#rows tbody").innerHTML = rows.map(row => `<tr data-id="${escaped(row.id)}" tabindex="0">`
    + COLUMNS.map(([, shown]) => `<td>${escaped(shown(row))}</td>`).join("") + "</tr>").join("");
  document.querySelectorAll("#rows th").forEach((th, i) => th.setAttribute(
    "aria-sort", i !== sortedBy ? "none" : direction > 0 ? "ascending" : "descending"));
  $("#count").textContent = `${rows.length} of ${D.rows.length}`;
}
$("#rows thead").addEventListener("click", e => {
  const button = e.target.closest("button");
  if (!button) return;
  const column = +button.dataset.col;
  [sortedBy, direction] = [column, sortedBy === column ? -direction : 1];
  drawRows();
});
for (const id of ["q", "suite", "state"]) $("#" + id).addEventListener("input", drawRows);
const pick = e => { const row = e.target.closest("tr[data-id]"); if (row) openCard(row.dataset.id); };
$("#rows tbody").addEventListener("click", pick);
$("#rows tbody").addEventListener("keydown", e => { if (e.key === "Enter") pick(e); });
drawRows();

// Cards ---------------------------------------------------------------------------------------------------------------
function analysisOf(row) {
  if (row.optimal == null)
    return `<p>Not enumerated yet (${escaped(row.state)}). The paper's optimal return is ${num(row.paper_returns.optimal)}. `
      + `<code>sqirl build ${escaped(row.build_id)}</code> enumerates it.</p>`;
  const facts = [
    ["horizon, actions, states", `${row.horizon}, ${row.actions}, ${row.states.toLocaleString("en")}`],
    ["optimal / random return", `${num(row.optimal, 4)} / ${num(row.random, 4)}`],
    ["greedy on Q¹, Q², …", row.greedy.map(value => num(value, 3)).join(", ")],
    ["min k (95 %)", `${row.min_k ?? "> " + row.searched_k} (${row.approx_k ?? "> " + row.searched_k})`],
    ["effective horizon", row.H == null ? "unknown" : `${num(row.H, 2)} at k = ${row.H_k}`],
  ];
  const table = `<table><tbody>${facts.map(([name, value]) => `<tr><td>${name}<td>${value}</tr>`).join("")}</tbody></table>`;
  return table + (row.witness ? `<pre>${escaped(row.witness)}</pre>` : "");
}

function runsOf(row) {
  return tableOf(
    ["Algorithm", "ours", "truly optimal", "cross-validated", "paper", "best return", "setting", "seeds", "settings tried"],
    NAMES.map(name => {
      const o = row.runs[name], paper = paperSteps(row, name);
      if (!o) return [label(name), "not run", "", "", paper, "", "", "", ""];
      return [label(name), ourSteps(o), stepRange(o.exact), stepRange(o.validated), paper, num(o.return, 3), escaped(o.setting),
        o.seeds, o.settings];
    }),
  );
}

function openCard(id) {
  const row = byId[id], body = $("#card-body");
  const picture = p => `<figure><img src="${p.url}" alt="${escaped(p.caption)}"><figcaption>${escaped(p.caption)}</figcaption></figure>`;
  $("#card-title").textContent = row.id;
  body.innerHTML = (row.pictures.length ? `<div class="pics">${row.pictures.map(picture).join("")}</div>` : "")
    + analysisOf(row) + runsOf(row);
  const box = document.createElement("div");
  box.style.maxWidth = "560px";
  body.append(box);
  drawCurves(box, row);
  if (!$("#card").open) $("#card").showModal();
}
$("#close").addEventListener("click", () => $("#card").close());
$("#card").addEventListener("click", e => { if (e.target === $("#card")) $("#card").close(); });
