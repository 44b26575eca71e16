// The table of all environments: the paper's and your own, in pieces, so that long tables stay fast.

const LAST = 1e18; // values that are not known are sorted behind all others
const PIECE = 60;
const PROPERTIES = [ // name, definition, what is shown, what is sorted by
  ["environment", null, row => row.title, row => row.title.toLowerCase()],
  ["T", "T", row => row.horizon ?? "", row => row.horizon ?? LAST],
  ["states", "states", row => row.states?.toLocaleString("en") ?? "", row => row.states ?? LAST],
  ["optimal", "optimal", row => num(row.optimal ?? row.paper_returns.optimal), row => row.optimal ?? row.paper_returns.optimal ?? LAST],
  ["min k", "min k", row => row.analysed ? starred(row, orMore(row)) : "", row => row.min_k ?? LAST],
  [`H̄ ${D.horizon.tolerance}`, `H̄ within ${D.horizon.tolerance}`, row => num(row.H_within, 1), row => row.H_within ?? LAST],
  ["H̄", "H̄", row => letterHorizon(row, 1), row => row.H ?? LAST],
];
const solvedFirst = value => value == null ? LAST / 100 : value;
const MEASURES = { // the two columns of an algorithm: ours and the paper's
  steps: name => [
    ["ours", "steps", row => ourSteps(row, name), row => row.runs[name] ? solvedFirst(row.runs[name].steps) : LAST],
    ["paper", "steps", row => paperSteps(row, name), row => row.own || !byName[name].in_paper ? LAST : solvedFirst(row.paper_solved[name])],
  ],
  returns: name => [
    ["ours", null, row => num(row.runs[name]?.return), row => -(row.runs[name]?.return ?? -LAST)],
    ["paper", null, row => num(row.paper_returns[name]), row => -(row.paper_returns[name] ?? -LAST)],
  ],
};
let columns = [], sortedBy = -1, direction = 1, chosen = [], numShown = 0;

function drawHeadings() {
  columns = [...PROPERTIES, ...NAMES.flatMap(MEASURES[$("#measure").value])];
  const heading = ([name, word], i) => make("th", { scope: "col", "aria-sort": "none", class: i >= PROPERTIES.length && (i - PROPERTIES.length) % 2 === 0 ? "first-of-group" : null },
    make("button", { type: "button", "data-col": i, "data-term": word }, name));
  $("#rows thead").replaceChildren(
    make("tr", {}, ...PROPERTIES.map(() => make("th")), ...NAMES.map(name => make("th", { class: "group", colspan: 2, scope: "colgroup" }, algorithmName(name)))),
    make("tr", {}, columns.map(heading)));
}

function choose() {
  const text = $("#q").value.toLowerCase(), suite = $("#suite").value, state = $("#state").value;
  const isChosen = { "": () => true, analysed: row => row.analysed, run: wasRun, own: row => row.own }[state];
  chosen = D.rows.filter(row => row.id.toLowerCase().includes(text) && (!suite || row.suite === suite) && isChosen(row));
  if (sortedBy >= 0) {
    const value = columns[sortedBy][3];
    chosen.sort((a, b) => direction * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
  }
  numShown = 0;
  $("#rows tbody").replaceChildren();
  addRows();
  document.querySelectorAll("#rows thead tr:last-child th").forEach((th, i) => th.setAttribute(
    "aria-sort", i !== sortedBy ? "none" : direction > 0 ? "ascending" : "descending"));
  $("#count").textContent = `${chosen.length.toLocaleString("en")} of ${D.rows.length.toLocaleString("en")}`;
}

function addRows() {
  const next = chosen.slice(numShown, numShown + PIECE);
  $("#rows tbody").append(...next.map((row, i) => make("tr", { "data-id": row.id }, columns.map(([, , shown], column) => {
    if (column) return make("td", { class: cellClass(column) }, shown(row));
    const attributes = { type: "button", class: row.own ? "own-row" : null, tabindex: numShown + i ? -1 : 0 };
    return make("td", {}, make("button", attributes, shown(row)));
  }))));
  numShown += next.length;
}
const cellClass = column => column < PROPERTIES.length ? null : (column - PROPERTIES.length) % 2 ? "papers" : "first-of-group";

const frame = document.querySelector(".scroll");
frame.addEventListener("scroll", () => {
  if (frame.scrollTop + frame.clientHeight > frame.scrollHeight - 400 && numShown < chosen.length) addRows();
}, { passive: true });
$("#rows thead").addEventListener("click", event => {
  const button = event.target.closest("button[data-col]");
  if (!button) return;
  const column = +button.dataset.col;
  [sortedBy, direction] = [column, sortedBy === column ? -direction : 1];
  choose();
});
$("#rows tbody").addEventListener("click", event => {
  const row = event.target.closest("tr");
  if (row) openCard(row.dataset.id);
});
$("#rows tbody").addEventListener("keydown", event => {
  const row = event.target.closest("tr"), step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!row || !step) return;
  event.preventDefault();
  if (step > 0 && !row.nextElementSibling && numShown < chosen.length) addRows();
  const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
  if (!next) return;
  row.querySelector("button").setAttribute("tabindex", -1);
  next.querySelector("button").setAttribute("tabindex", 0);
  next.querySelector("button").focus();
});
for (const suite of Object.keys(D.suites)) if (D.rows.some(row => row.suite === suite)) $("#suite").append(make("option", { value: suite }, D.suites[suite]));
for (const id of ["q", "suite", "state"]) $("#" + id).addEventListener("input", choose);
$("#measure").addEventListener("input", () => { if (sortedBy >= PROPERTIES.length) sortedBy = -1; drawHeadings(); choose(); });
drawHeadings();
choose();
