// The verdict: what to ship, how sure that is, what it was held against, what it took.

function drawVerdict(host, data) {
  host.append(
    element("h1", {}, data.words.answer),
    element("p", { class: "say" }, data.words.verdict),
    element("div", { class: "tiles" }, answerTile(data), baselineTile(data), contendersTile(data), spentTile(data)),
    data.notes.map((note) => element("p", { class: "soft" }, isolated(note))),
  );
}

function answerTile(data) {
  if (!data.answer.length) return null;
  const arm = data.answer[0], { prompts, goal } = data;
  const rows = goal.metrics.map((metric, j) => [
    element("dt", {}, isolated(metric.name), " ", element("small", {}, directionOf(metric))),
    element("dd", {}, estimate(prompts.estimates[arm][j], prompts.errors[arm][j]), keeps(data, arm, j)),
  ]);
  const sure = [];
  if (prompts.p_best[arm] !== null) sure.push([element("dt", {}, bestName(data)), element("dd", {}, chance(prompts.p_best[arm]))]);
  if (prompts.p_feasible[arm] !== null) sure.push([element("dt", {}, "P(feasible)"), element("dd", {}, chance(prompts.p_feasible[arm]))]);
  const more = data.answer.length > 1 ? element("p", { class: "soft" }, `The first of ${whole(data.answer.length)}: `,
    data.answer.slice(1, 8).map((other, i) => [i ? ", " : "", promptLink(data, other)]), data.answer.length > 8 ? ", …" : "") : null;
  return element("div", { class: "tile" },
    element("h3", {}, promptLink(data, arm)),
    element("pre", { class: "text", dir: "auto", tabindex: "0" }, textOf(data, arm)),
    element("dl", {}, rows, sure), ofNewExamples(data, arm), more);
}

/** How far the estimates may be off where it matters: on examples that were not given. */
function ofNewExamples(data, arm) {
  const wider = data.goal.metrics.map((metric, j) => [metric, data.prompts.population_errors[arm][j]]).filter(([, error]) => error !== null && error !== undefined);
  return wider.length && data.examples ? element("p", { class: "soft" }, `± is one standard error of the mean over the ${whole(data.examples)} examples given; over new ones like them it is `,
    wider.map(([metric, error], i) => [i ? ", " : "", isolated(metric.name), ` ${Number(error.toPrecision(2))}`]), ".") : null;
}

function keeps(data, arm, j) {
  const mean = data.prompts.estimates[arm][j];
  return data.goal.metrics[j].thresholds.map((each) => {
    const kept_ = mean !== null && (each.at_most ? mean <= each.bound : mean >= each.bound);
    return [" ", element("span", { class: kept_ ? "badge answer" : "badge bad" }, kept_ ? "keeps " : "misses ", each.at_most ? "≤ " : "≥ ", number(each.bound))];
  });
}

/** The answer less the baseline, metric by metric, as intervals around zero. */
function baselineTile(data) {
  if (data.baseline === null) return null;
  const tile = element("div", { class: "tile" }, element("h3", {}, "Against the baseline, ", promptLink(data, data.baseline)));
  if (!data.comparison) {
    tile.append(element("p", {}, data.answerSet.has(data.baseline) ? "The baseline is itself the answer." : "Not evaluated on common examples yet."));
    return tile;
  }
  for (const metric of data.goal.metrics) {
    tile.append(differenceRow(metric, data.comparison.differences[metric.name], data.comparison.confidence));
  }
  return tile;
}

/** One difference: its numbers, and the interval as a bar. */
function differenceRow(metric, found, confidence) {
  const { estimate: mean, low, high, pairs, verdict } = found;
  if (mean === null) return element("p", {}, isolated(metric.name), ": no common example yet");
  const interval = low === null || high === null || low === high ? "" : ` [${signed(low)}, ${signed(high)}]`;
  const words = `${verdict}; ${signed(mean)}${interval} on ${whole(pairs)} common ${pairs === 1 ? "example" : "examples"}`;
  return element("div", {}, element("strong", {}, isolated(metric.name)), ": ", words,
    low === null || high === null ? null : intervalBar(mean, low, high, metric, confidence));
}

function intervalBar(mean, low, high, metric, confidence) {
  const width = 260, height = 30;
  const x = scale(Math.min(low, 0), Math.max(high, 0), 12, width - 12);
  const name = `${signed(mean)}, from ${signed(low)} to ${signed(high)} with confidence ${percent(confidence)}`;
  const color = low > 0 || high < 0 ? ((low > 0) === (signOf(metric) > 0) ? "var(--good)" : "var(--bad)") : "var(--other)";
  const picture = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "interval", role: "img", "aria-label": name },
    line(x(0), 2, x(0), height - 2, "var(--text)", 1.5),
    line(x(low), 15, x(high), 15, color, 4), line(x(low), 9, x(low), 21, color, 2), line(x(high), 9, x(high), 21, color, 2));
  const dot = shape("circle", { cx: x(mean), cy: 15, r: 6 });
  dot.style.fill = color;
  picture.append(dot, shape("title", {}, name));
  return picture;
}

function contendersTile(data) {
  const contenders = data.verdict.contenders;
  if (contenders.length < 2) return null;
  const arms = new Map(data.prompts.ids.map((id, arm) => [String(id), arm]));
  const shown = contenders.slice(0, 8).map(([id, probability]) => element("li", {}, promptLink(data, arms.get(String(id))), ` ${chance(probability)}`));
  return element("div", { class: "tile" }, element("h3", {}, bestName(data)), element("ul", {}, shown),
    contenders.length > 8 ? element("p", { class: "soft" }, `and ${whole(contenders.length - 8)} more`) : null);
}

function spentTile(data) {
  const unlimited = data.max_cost !== null;
  const part = Math.max(unlimited ? data.spent_cost / data.max_cost : 0, data.budget ? data.spent / data.budget : 0);
  const bar = element("div");
  bar.style.width = `${Math.min(100, 100 * part)}%`;
  const tile = element("div", { class: "tile" },
    element("h3", {}, data.done ? "Spent" : "Spent so far"),
    element("p", { class: "big" }, `${whole(data.spent)} ${data.spent === 1 ? "evaluation" : "evaluations"}`),
    element("div", { class: "meter", role: "img", "aria-label": `${percent(part)} of the budget` }, bar),
    element("p", {}, `${data.spending}`));
  if (data.spent_cost && !unlimited) tile.append(element("p", {}, `at a cost of ${number(data.spent_cost)}`));
  if (data.whole) {
    const cost = data.whole.cost === null ? "" : `, at a cost of about ${number(data.whole.cost)}`;
    tile.append(element("p", { class: "soft" },
      `Every prompt on every example: ${whole(data.whole.evaluations)} evaluations${cost}. ` +
      `This took ${percent(data.spent / data.whole.evaluations)} of them.`));
  }
  return tile;
}
