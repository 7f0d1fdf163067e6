// The verdict for the person who decides: the recommendation, its certainty, the prompt, and the forecast.

function drawVerdict(host, data) {
  host.append(element("h1", {}, data.words.answer));
  if (data.ruling) host.append(requirementsList(data.ruling));
  host.append(
    ...[data.words.verdict && element("p", { class: "say" }, data.words.verdict), answerTile(data), !data.ruling && !data.finished && outlookTile(data), coursePicture(data, Math.max(280, host.clientWidth))].filter(Boolean),
    ...[...data.notes, !data.ruling && data.verdict.assumption].filter(Boolean).map((note) => element("p", { class: "soft" }, isolated(note))),
    ...data.failures.slice(0, 1).map(({ reason, count }) => element("p", { class: "soft" }, `The most frequent failure (${whole(count)} times): `, isolated(brief(reason, 200)))),
  );
}

/** What a gate required, and whether it is established. */
function requirementsList({ requirements }) {
  const kinds = { passed: "badge answer", failed: "badge bad", undecided: "badge" };
  return element("ul", { class: "plain" }, requirements.map(([text, verdict]) => element("li", {}, element("span", { class: kinds[verdict] }, verdict), " ", isolated(text))));
}

/** The assumptions behind all statements: first those that do not hold, then those that cannot be checked. */
function drawChecks(host, data) {
  const rank = (ok) => (ok === false ? 0 : ok === null ? 1 : 2);
  const label = (ok) => element("span", { class: ok === false ? "badge bad" : ok === null ? "badge" : "badge answer" }, ok === false ? "no" : ok === null ? "unknown" : "ok");
  const sorted = [...data.checks].sort((a, b) => rank(a.ok) - rank(b.ok));
  host.append(
    element("p", { class: "say" }, data.words.checks),
    element("dl", {}, sorted.map(({ name, ok, sentence }) => [element("dt", {}, name, " ", label(ok)), element("dd", {}, isolated(sentence))])),
  );
}

function answerTile(data) {
  const arms = data.ruling ? [data.ruling.candidate] : data.answer, [arm] = arms, { prompts, goal } = data;
  if (!arms.length) return null;
  const rows = goal.metrics.map((metric, j) => [
    element("dt", {}, isolated(metric.name), directionOf(metric) ? [" ", element("small", {}, `(${directionOf(metric)})`)] : null),
    element("dd", {}, estimate(prompts.estimates[arm][j], prompts.errors[arm][j]), keeps(data, arm, j)),
  ]);
  const more = arms.length > 1 ? element("p", { class: "soft" }, `The first of ${whole(data.answer.length)} selected prompts. The others: `,
    data.answer.slice(1, 8).map((other, i) => [i ? ", " : "", promptLink(data, other)]), data.answer.length > 8 ? ", …" : "") : null;
  return element("div", { class: "tile" },
    element("h3", {}, promptLink(data, arm)),
    prompts.texts[arm] === data.names[arm] ? null : textToOpen(textOf(data, arm)),
    element("dl", {}, rows), more);
}

/** A text whose beginning is shown, with a button for the rest. */
function textToOpen(text) {
  const keep = kept("verdict", { whole: false }), node = element("pre", { class: "text", dir: "auto", tabindex: "0" }, text);
  const button = element("button", { type: "button", class: "link", hidden: true, onclick: () => set(!keep.whole) });
  function set(isWhole) {
    keep.whole = isWhole;
    node.classList.toggle("whole", isWhole);
    button.textContent = isWhole ? "Show less of the prompt" : "Show the whole prompt";
  }
  set(keep.whole);
  new ResizeObserver(() => { button.hidden = !keep.whole && node.scrollHeight <= node.clientHeight; }).observe(node);
  return [node, button];
}

function keeps(data, arm, j) {
  const mean = data.prompts.estimates[arm][j];
  return data.goal.metrics[j].thresholds.map((each) => {
    const kept_ = mean !== null && (each.at_most ? mean <= each.bound : mean >= each.bound);
    return [" ", element("span", { class: kept_ ? "badge answer" : "badge bad" }, kept_ ? "satisfies " : "violates ", each.at_most ? "≤ " : "≥ ", each.relative || number(each.bound))];
  });
}

/** The evaluations spent, the present certainty, and the forecast for more evaluations. */
function outlookTile(data) {
  const { verdict, whole: all } = data, front = data.goal.kind === "pareto";
  const gains = (row) => row.loss < 0.95 * verdict.loss || row.p_best > verdict.p_best + 0.01;
  const outlook = verdict.action === "none" ? [] : verdict.outlook.slice(verdict.outlook.some(gains) ? 0 : -1); // if no row brings a gain, the last one shows that
  const shown = [
    ["evaluations", (row, i) => (i ? "+" : "") + whole(row.evaluations)],
    ["cost", (row, i) => (row.cost === null ? "–" : (i ? "+" : "") + money(data, row.cost))],
    [bestName(data), (row) => chance(row.p_best)],
    [front ? "as good as the true set" : "expected gap", (row) => (row.loss === null ? "–" : front ? chance(1 - row.loss) : Number(row.loss.toPrecision(2)))],
  ].filter(([name], i) => (name === "cost" ? data.spent_cost : i < 2 || (verdict.action !== "none" && (i > 2 || !front))));
  const now = { evaluations: data.spent, cost: data.spent_cost, p_best: verdict.p_best, loss: verdict.loss };
  const rows = [now, ...outlook].map((row, i) => element("tr", {}, shown.map(([, cell]) => element("td", { class: "number" }, cell(row, i)))));
  const everything = all && `Every prompt on every example takes ${whole(all.evaluations)} evaluations${all.cost === null ? "" : ` and costs about ${money(data, all.cost)}`}.`;
  return element("div", { class: "tile" },
    element("h3", {}, outlook.length ? "Forecast for more evaluations" : "Evaluations so far"),
    element("table", {}, element("tr", {}, shown.map(([name]) => element("th", { scope: "col", class: "number" }, name))), rows),
    element("p", { class: "soft" }, `Spent: ${data.spending}. `, everything));
}
