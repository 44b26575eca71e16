// How values are written; the rows by their names.

const $ = selector => document.querySelector(selector);
const NAMES = { sqirl: "SQIRL", ppo: "PPO", dqn: "DQN", gorp: "GORP" };
const BUDGET = 5e6; // the paper's; a complexity above it is not solved
const byId = Object.fromEntries(D.rows.map(row => [row.id, row]));

const escaped = text => String(text).replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const short = id => id.replace("BRIDGE/", "").replace("-Sticky-v0", "").replace("NoFrameskip-v4", "");
const num = (value, digits = 2) => value == null ? "" : (+value).toFixed(digits);
const share = value => value == null ? "–" : (100 * value).toFixed(1) + " %";
const interval = e => e == null || e[0] == null ? "–" : `${num(e[0])} <small>[${num(e[1])}, ${num(e[2])}]</small>`;

function steps(value) {
  if (value == null) return "–";
  if (value >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  return value >= 1e3 ? +(value / 1e3).toPrecision(3) + "k" : String(Math.round(value));
}

// The paper's sample complexity of an algorithm, null where it did not solve within its budget.
const paperSteps = (row, algorithm) => row.paper[algorithm] <= BUDGET ? row.paper[algorithm] : null;
const wasRun = row => Object.keys(row.runs).length > 0;

function tableOf(header, rows) {
  const line = (cells, tag) => "<tr>" + cells.map(cell => `<${tag}>${cell}</${tag}>`).join("") + "</tr>";
  return `<table><thead>${line(header, "th")}</thead><tbody>${rows.map(row => line(row, "td")).join("")}</tbody></table>`;
}
