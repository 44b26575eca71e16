// Two versions of one game: an easy one and a hard one, with the decision in which greedy on Q^k goes wrong.

const [easyGame, hardGame] = D.contrast.map(game => ({ ...byId[game.id], ...game }));

const powerOf = k => make("span", {}, "Q", make("sup", {}, k));

function framesOf(game) {
  return make("div", { class: "frames" }, game.frames.map(({ url, caption }) => make("figure", { class: caption.startsWith("greedy") ? "is-wrong" : null },
    make("img", { src: url, alt: `${game.title}, ${caption}`, loading: "lazy" }), make("figcaption", {}, caption))));
}

function factsOf(game) {
  const solvedBy = D.horizon.algorithms.map(name => make("span", { class: "steps-of" }, algorithmName(name), ` ${paperSteps(game, name)}`));
  const greedy = (game.greedy[0] - game.random) / (game.optimal - game.random);
  return tableOf(["", ""], [
    [term(`H̄ within ${D.horizon.tolerance}`, "effective horizon"), num(game.H_within, 1)],
    [make("span", {}, "greedy on ", term("Q^k", "Q¹"), " earns"), `${short(game.greedy[0])} of ${short(game.optimal)} (${share(Math.max(0, greedy))} of the gain)`],
    [term("min k"), orMore(game)],
    [make("span", {}, "the paper's ", term("steps")), make("span", {}, ...solvedBy)],
  ]);
}

function decisionOf(game) {
  const { k, t, loss, actions } = game.decision, wrong = actions.find(a => a.greedy && !a.optimal);
  const right = actions.filter(a => a.optimal).map(a => a.name).join(" or ");
  const table = tableOf(["action", term("Q^k", powerOf(k)), term("Q*")], actions.map(a => [
    make("span", { class: a === wrong ? "is-wrong" : null }, a.name, a === wrong ? " (greedy)" : a.optimal ? " (optimal)" : ""),
    [short(a.q), a.greedy ? "is-ours" : ""], [short(a.optimal_q), a.optimal ? "is-ours" : ""]]));
  return [make("p", {}, `${t} steps in, greedy on `, powerOf(k), ` ${actions.filter(a => a.greedy).length > 1 ? "may take" : "takes"} ${wrong.name}; only ${right} ${right.includes(" or ") ? "are" : "is"} optimal. It loses ${short(loss)} of the ${short(game.optimal)} points.`),
    make("div", { class: "panel" }, table)];
}

function drawGame(game, verdict, more) {
  const facts = factsOf(game);
  facts.className = "facts";
  facts.tHead.remove();
  $("#f-games").append(make("article", { class: "game" },
    make("h3", {}, `${game.title}`), make("p", { class: "verdict" }, verdict), game.frames.length ? framesOf(game) : "", facts, ...more));
}

if (hardGame) {
  const names = D.horizon.algorithms.map(label).join(", ").replace(/, ([^,]*)$/, " and $1");
  $("#games-lead").textContent = `The same game with the same ${hardGame.actions} actions. Only the episode is longer: ${easyGame.horizon} steps, and `
    + `${hardGame.horizon} steps. In the short one, the best action by the value of random play is always right. In the long one, it is not, `
    + `even after ${hardGame.decision.k - 1} steps of planning.`;
  drawGame(easyGame, `${easyGame.horizon} steps: ${names} all solve it.`, [
    make("p", {}, "Greedy on Q¹ is optimal in every state: to estimate the value of random play is enough to play optimally.")]);
  drawGame(hardGame, `${hardGame.horizon} steps: none of ${names} solves it.`, decisionOf(hardGame));
} else note($("#f-games"), "No game is analysed in an easy and in a hard version.");
