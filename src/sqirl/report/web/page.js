// The page, section by section.

const plural = D.counts.failed ? `, ${D.counts.failed} failed` : "";
$("#lead").textContent = `${D.rows.length} sticky-action environments, ${D.counts.built} of them enumerated exactly; `
  + `${D.counts.runs.toLocaleString("en")} runs of our own${plural}. Everything on this page is in this file.`;
const nothing = (parent, text) => parent.insertAdjacentHTML("beforeend", `<p class="soft">${text}</p>`);

// The paper's two tables, and how far ours agree ----------------------------------------------------------------------
const solvedOf = (tables, name) => `${tables.solved[name][0]} of ${tables.solved[name][1]}`;
$("#t-solved").innerHTML = tableOf(["Algorithm", "ours", "paper"], [
  ...["ppo", "dqn", "sqirl", "gorp"].map(name => [NAMES[name], solvedOf(D.ours, name), solvedOf(D.paper, name)]),
  ["SQIRL solves, where PPO and DQN both do", share(D.ours.sqirl_where_both), share(D.paper.sqirl_where_both)],
  ["… where neither does", share(D.ours.sqirl_where_neither), share(D.paper.sqirl_where_neither)],
]);
const compared = (names, c) => [...names, interval(c.correlation), interval(c.ratio), c.both, c.only_first, c.only_second, c.neither];
$("#t-pairs").innerHTML = tableOf(
  ["Pair", "of", "correlation", "median ratio", "both", "only 1st", "only 2nd", "neither"],
  D.ours.pairs.flatMap((pair, i) => [["ours", pair], ["paper", D.paper.pairs[i]]].map(
    ([whose, c]) => compared([`${NAMES[c.first]}–${NAMES[c.second]}`, whose], c))),
);
$("#t-agree").innerHTML = tableOf(
  ["Algorithm", "rank correlation", "median of ours / paper's", "both solve", "only ours", "only the paper's", "neither", "within 3 times"],
  D.agreement.map(c => [...compared([NAMES[c.algorithm]], c), `${c.within_three} of ${c.both}`]),
);

// SQIRL against PPO and DQN -------------------------------------------------------------------------------------------
for (const other of ["ppo", "dqn"]) {
  const parent = $("#s-" + other), range = [7e3, 6e6];
  parent.insertAdjacentHTML("beforeend", `<h3>SQIRL against ${NAMES[other]}</h3>`);
  const c = chart(parent, {
    x: range, y: range, logx: true, logy: true, xlabel: NAMES[other] + " steps", ylabel: "SQIRL steps", diagonal: true,
  });
  const points = (valueOf, whose, style) => D.rows
    .map(row => ({ row, y: valueOf(row, "sqirl"), x: valueOf(row, other) }))
    .filter(({ x, y }) => x && y)
    .map(({ row, x, y }) => ({
      x, y, id: row.id, ...style, text: `${short(row.id)} (${whose}): SQIRL ${steps(y)}, ${NAMES[other]} ${steps(x)}`,
    }));
  dots(c, points(paperSteps, "paper", { fill: "var(--soft)", opacity: .45, r: 3.5 }));
  dots(c, points((row, name) => row.runs[name]?.steps, "ours", { fill: "var(--sqirl)" }));
}

// min k: a line for each k, a dot on it for each environment ----------------------------------------------------------
function drawLeastK(parent, leastK, label) {
  const lines = new Map();
  for (const row of D.rows.filter(row => row.optimal != null)) {
    const k = leastK(row) ?? Infinity;
    lines.set(k, [...lines.get(k) || [], row]);
  }
  if (!lines.size) return nothing(parent, "No environment is enumerated.");
  const ks = [...lines.keys()].sort((a, b) => a - b), longest = Math.max(...[...lines.values()].map(rows => rows.length));
  const c = chart(parent, {
    x: [0, longest + 1], y: [ks.length - .5, -.5], xlabel: "environments", ylabel: "k", label,
    yticks: ks.map((k, i) => [i, k === Infinity ? "more" : k]),
  });
  const byPPO = row => paperSteps(row, "ppo") != null;
  const exactly = row => row.min_k ?? "more than " + row.searched_k;
  ks.forEach((k, line) => dots(c, lines.get(k).sort((a, b) => byPPO(b) - byPPO(a)).map((row, i) => ({
    x: i + 1, y: line, r: 3.6, id: row.id, fill: byPPO(row) ? "var(--dqn)" : "var(--ppo)",
    text: `${short(row.id)}: 95 % with k = ${row.approx_k ?? "more than " + row.searched_k}, exactly optimal with ${exactly(row)}`,
  }))));
}
drawLeastK($("#f-mink"), row => row.approx_k, "The least k for 95 % of the optimal return");
drawLeastK($("#f-exact"), row => row.min_k, "The least k for exactly the optimal return");

// Theory against practice ---------------------------------------------------------------------------------------------
function drawTheory(parent, valueOf, xlabel, logx) {
  const points = [];
  for (const row of D.rows) {
    const x = valueOf(row), ours = row.runs.sqirl?.steps, y = ours || paperSteps(row, "sqirl");
    if (x && y) points.push({
      x, y, id: row.id, fill: ours ? "var(--sqirl)" : "var(--soft)",
      text: `${short(row.id)}: ${xlabel} ${logx ? x.toExponential(1) : num(x, 1)}, SQIRL ${steps(y)} (${ours ? "ours" : "paper"})`,
    });
  }
  if (!points.length) return nothing(parent, "Nothing to show yet.");
  const xs = points.map(p => p.x), highest = Math.max(...xs);
  const x = logx ? [Math.min(...xs) / 3, highest * 3] : [0, highest * 1.05];
  dots(chart(parent, { x, y: [5e3, 6e6], logx, logy: true, xlabel, ylabel: "SQIRL steps" }), points);
}
drawTheory($("#f-h"), row => row.H, "effective horizon", false);
drawTheory($("#f-bound"), row => row.bound, "bound in steps", true);

// Learning curves -----------------------------------------------------------------------------------------------------
function drawAllCurves(parent, rows, options, otherwise) {
  for (const row of rows.filter(wasRun)) {
    const panel = document.createElement("div");
    panel.className = "panel";
    panel.innerHTML = `<h3>${escaped(short(row.id))}</h3>`;
    drawCurves(panel, row, options);
    parent.append(panel);
  }
  if (!parent.children.length) nothing(parent, otherwise);
}
drawAllCurves($("#all-curves"), [...D.rows, ...D.others], {}, "No runs yet: sqirl sweep easy.");
drawAllCurves($("#full-curves"), D.full_length, { logx: false }, "No runs yet: sqirl sweep atari-long.");

// The table of all environments ---------------------------------------------------------------------------------------
const LAST = 1e18; // sorts what is not known behind everything that is
const complexity = name => [
  NAMES[name],
  row => (row.runs[name] ? steps(row.runs[name].steps) : " ") + " / " + steps(paperSteps(row, name)),
  row => row.runs[name] ? row.runs[name].steps ?? LAST / 100 : LAST / 10 + (row.paper[name] ?? LAST / 100),
];
const bestReturn = name => [
  NAMES[name] + " return",
  row => `${num(row.runs[name]?.return) || " "} / ${num(row.paper_returns[name])}`,
  row => -(row.runs[name]?.return ?? -LAST),
];
const COLUMNS = [ // name, what is shown, what is sorted by
  ["environment", row => short(row.id), row => row.id],
  ["state", row => wasRun(row) ? row.state + ", run" : row.state, row => row.state],
  ["T", row => row.horizon, row => row.horizon],
  ["states", row => row.states?.toLocaleString("en") ?? "", row => row.states ?? LAST],
  ["optimal", row => num(row.optimal ?? row.paper_returns.optimal), row => row.optimal ?? row.paper_returns.optimal],
  ["min k", row => row.optimal == null ? "" : row.min_k ?? "> " + row.searched_k, row => row.min_k ?? LAST],
  ["H̄", row => num(row.H, 1), row => row.H ?? LAST],
  ...["sqirl", "ppo", "dqn", "gorp"].map(complexity),
  ...["sqirl", "ppo", "dqn"].map(bestReturn),
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
      + `<code>sqirl build ${escaped(row.id.replace("-Sticky", ""))}</code> enumerates it.</p>`;
  const facts = [
    ["horizon, actions, states", `${row.horizon}, ${row.actions}, ${row.states.toLocaleString("en")}`],
    ["optimal / random return", `${num(row.optimal, 4)} / ${num(row.random, 4)}`],
    ["greedy on Q¹..Q⁵", row.greedy.map(value => num(value, 3)).join(", ")],
    ["min k (95 %)", `${row.min_k ?? "> " + row.searched_k} (${row.approx_k ?? "> " + row.searched_k})`],
    ["effective horizon", row.H == null ? "unknown" : `${num(row.H, 2)} at k = ${row.H_k}`],
  ];
  const table = `<table><tbody>${facts.map(([name, value]) => `<tr><td>${name}<td>${value}</tr>`).join("")}</tbody></table>`;
  return table + (row.witness ? `<pre>${escaped(row.witness)}</pre>` : "");
}

function runsOf(row) {
  return tableOf(
    ["Algorithm", "ours", "true return optimal", "paper", "best return", "setting", "seeds", "settings tried"],
    ["sqirl", "ppo", "dqn", "gorp"].map(name => {
      const o = row.runs[name], paper = steps(paperSteps(row, name));
      if (!o) return [NAMES[name], "not run", "", paper, "", "", "", ""];
      return [NAMES[name], steps(o.steps), steps(o.exact), paper, num(o.return, 3), escaped(o.setting), o.seeds, o.settings];
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
