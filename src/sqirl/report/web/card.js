// The card of an environment: pictures, its analysis, its runs and its learning curves.

function analysisOf(row) {
  if (!row.analysed) {
    const optimal = row.paper_returns.optimal ?? row.optimal;
    const advice = row.own ? make("code", {}, `sqirl analyze ${row.id} --json > a.json; sqirl report --analysis a.json`) : make("code", {}, `sqirl build ${row.build_id}`);
    return make("p", {}, `Not analysed (${row.state}).${optimal == null ? "" : ` The optimal return is ${short(optimal)}.`} `, advice, row.own ? " adds it." : " enumerates it.");
  }
  const facts = [
    [make("span", {}, term("T"), ", ", term("A"), ", ", term("states")), `${row.horizon}, ${row.actions}, ${row.states.toLocaleString("en")}`],
    [make("span", {}, term("optimal"), " and ", term("random"), " return"), `${num(row.optimal, 4)}, ${num(row.random, 4)}`],
    [make("span", {}, "greedy on ", term("Q^k", "Q¹, Q², …")), row.greedy.map(short).join(", ")],
    [make("span", {}, term("min k"), " (for 95 %)"), `${orMore(row)} (${row.approx_k ?? "> " + row.searched_k})`],
    [term(`H̄ within ${D.horizon.tolerance}`, `effective horizon within ${D.horizon.tolerance}`), row.H_within == null ? "unknown" : num(row.H_within, 2)],
    [term("H̄", "effective horizon, by the letter"), row.H == null ? "unknown" : `${letterHorizon(row, 2)} at k = ${row.H_k}`],
  ];
  const table = tableOf(["", ""], facts);
  table.tHead.remove();
  return make("div", {}, row.caveat ? make("p", { class: "is-wrong" }, `Not exact: ${row.caveat}.`) : "", make("div", { class: "panel" }, table), row.witness ? make("pre", {}, row.witness) : "");
}

const runsOf = row => tableOf(
  ["", term("steps", "ours"), "paper", "our best return", "paper", term("truly optimal"), term("cross-validated"), ["setting", "text"], "seeds", "settings tried"],
  NAMES.map(name => {
    const o = row.runs[name], paper = [paperSteps(row, name), ""], paperReturn = num(row.paper_returns?.[name]);
    if (!o) return [algorithmName(name), "not run", paper, "", paperReturn, "", "", "", "", ""];
    return [algorithmName(name), ourSteps(row, name), paper, num(o.return, 3), paperReturn, stepRange(o.exact), stepRange(o.validated),
      [o.setting + (o.variant === "ours" ? "" : ` (variant ${o.variant})`), "text"], o.seeds, o.settings];
  }),
);

function openCard(id) {
  const row = byId[id], body = $("#card-body"), box = make("div", { class: "narrow" });
  hideTip();
  $("#card-title").textContent = row.id;
  body.replaceChildren();
  if (row.pictures.length) body.append(make("div", { class: "frames" }, row.pictures.map(({ url, caption }) => make("figure", {},
    make("img", { src: url, alt: caption }), make("figcaption", {}, caption)))));
  body.append(analysisOf(row), make("div", { class: "panel" }, runsOf(row)), box);
  if (!$("#card").open) $("#card").showModal();
  if (wasRun(row)) drawCurves(box, row); // now that its width is known
}
$("#close").addEventListener("click", () => $("#card").close());
$("#card").addEventListener("click", e => { if (e.target === $("#card")) $("#card").close(); });
