// How values are written, and the rows and the algorithms by their names. Computes no statistic: D holds every number.

const $ = selector => document.querySelector(selector);
const byId = Object.fromEntries(D.rows.map(row => [row.id, row]));
const byName = Object.fromEntries(D.algorithms.map(algorithm => [algorithm.name, algorithm]));
const NAMES = D.algorithms.map(algorithm => algorithm.name);
const label = name => byName[name].label;

const escaped = text => String(text).replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const num = (value, digits = 2) => value == null ? "" : (+value).toFixed(digits);
const share = value => value == null ? "–" : (100 * value).toFixed(1) + " %";
const interval = e => e == null || e[0] == null ? "–" : `${num(e[0])} <small>[${num(e[1])}, ${num(e[2])}]</small>`;
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

// The steps of one of our outcomes, with the variant if it is not our own.
const ourSteps = outcome => (outcome.open ? "open" : steps(outcome.steps)) + (outcome.variant === "ours" ? "" : ` (${outcome.variant})`);

// The paper's steps to solve; empty if the paper does not have the algorithm.
const paperSteps = (row, name) => byName[name].in_paper ? steps(row.paper_solved[name]) : "";

function tableOf(header, rows) {
  const line = (cells, tag) => "<tr>" + cells.map(cell => `<${tag}>${cell}</${tag}>`).join("") + "</tr>";
  return `<table><thead>${line(header, "th")}</thead><tbody>${rows.map(row => line(row, "td")).join("")}</tbody></table>`;
}
