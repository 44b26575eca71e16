// How values are written, and the rows and the algorithms by their names. Computes no statistic: D holds every number.

const $ = selector => document.querySelector(selector);
const D = JSON.parse($("#data").textContent);
const byId = Object.fromEntries([...D.full_length, ...D.rows].map(row => [row.id, row]));
const byName = Object.fromEntries(D.algorithms.map(algorithm => [algorithm.name, algorithm]));
const NAMES = D.algorithms.map(algorithm => algorithm.name);
const label = name => byName[name].label;

// A new element. Children are elements or texts; a text never becomes markup.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value != null) element.setAttribute(name, value);
  element.append(...children.flat().filter(child => child != null && child !== ""));
  return element;
}

// An algorithm in its colour: a dot and its name.
const algorithmName = name => make("span", { class: "name", style: `--colour:${byName[name].colour}` }, label(name));
// A word whose definition is shown on hover and focus.
const term = (word, shown = word) => make("button", { type: "button", class: "term", "data-term": word }, shown);

const num = (value, digits = 2) => value == null ? "" : (+value).toFixed(digits);
const short = value => value == null ? "" : Math.abs(value) >= 1e3 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(4));
const share = value => value == null ? "" : (100 * value).toFixed(0) + " %";
const between = e => e == null || e[0] == null ? "unknown" : `${num(e[0])} (${num(e[1])} to ${num(e[2])})`;
const interval = e => e == null || e[0] == null ? "" : make("span", {}, num(e[0]), make("small", {}, ` [${num(e[1])}, ${num(e[2])}]`));
const wasRun = row => Object.keys(row.runs).length > 0;

function steps(value) {
  if (value == null) return "–";
  if (value >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  return value >= 1e3 ? +(value / 1e3).toPrecision(3) + "k" : String(Math.round(value));
}

// [low, high]: more than low and at most high steps; null for no limit.
function stepRange(range) {
  if (range == null || (range[0] === 0 && range[1] == null)) return "";
  if (range[1] != null) return (range[0] === range[1] ? "" : "≤ ") + steps(range[1]);
  return range[0] == null || range[0] >= D.budget ? "–" : "> " + steps(range[0]);
}

// The steps of one of our outcomes; empty where the optimal return is not known, so that nothing can be solved.
// An environment of one's own has no budget that all share: there, "> 20k" says how long it was run without success.
const ourSteps = (row, name) => {
  const outcome = row.runs[name];
  if (!outcome || !outcome.target) return "";
  return outcome.open ? "open" : outcome.steps == null && row.own ? stepRange(outcome.needed) : steps(outcome.steps);
};
// An algorithm and its steps in the text of a mark.
const saidSteps = (row, name, value, ours) => value != null ? `${label(name)} ${steps(value)} steps`
  : `${label(name)} does not solve it` + (ours && row.own && row.runs[name].needed[0] ? ` within ${steps(row.runs[name].needed[0])} steps` : "");
// The paper's steps to solve; empty if the paper does not have the algorithm or the environment.
const paperSteps = (row, name) => row.own || !byName[name].in_paper ? "" : steps(row.paper_solved[name]);
// H̄ by the letter; a search that was not finished gives a bound only.
const letterHorizon = (row, digits) => row.H == null ? "" : (row.settled ? "" : "≤ ") + num(row.H, digits);
const orMore = row => row.min_k ?? "> " + row.searched_k;
// A star after what may be wrong, with the reason.
const starred = (row, shown) => row.caveat ? make("span", {}, shown, make("button", { type: "button", class: "term star", tabindex: -1, "aria-label": row.caveat, "data-tip": "" }, "*")) : shown;

// A table. A cell is a text, an element, or [cell, class].
function tableOf(header, rows) {
  const cell = (tag, found) => Array.isArray(found) ? make(tag, { class: found[1] }, found[0]) : make(tag, {}, found);
  const line = (tag, cells) => make("tr", {}, cells.map(found => cell(tag, found)));
  return make("table", {}, make("thead", {}, line("th", header)), make("tbody", {}, rows.map(row => line("td", row))));
}
const note = (parent, text) => parent.append(make("p", { class: "soft" }, text));
function fill(place, header, rows) {
  if (rows.length) $(place).append(tableOf(header, rows));
  else note($(place), "None.");
}

// The least and the greatest of many numbers; Math.min(...xs) fails beyond some 100,000 of them.
const least = xs => xs.reduce((a, b) => Math.min(a, b), Infinity);
const greatest = xs => xs.reduce((a, b) => Math.max(a, b), -Infinity);

// Call `draw` when the element comes near the window.
const waiting = new Map();
const watcher = new IntersectionObserver(entries => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) {
    watcher.unobserve(target);
    waiting.get(target)();
    waiting.delete(target);
  }
}, { rootMargin: "600px" });
function whenNear(element, draw) {
  waiting.set(element, draw);
  watcher.observe(element);
}
