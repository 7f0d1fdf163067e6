// A document, and what several panels ask of it.

/** What the reader has chosen, panel by panel: it outlives a document that comes anew. */
const chosen = {};

function kept(panel, defaults) {
  chosen[panel] = { ...defaults, ...chosen[panel] };
  return chosen[panel];
}

/** Which sign a prompt gets. */
function kindOf(data, arm) {
  if (data.answerSet.has(arm)) return "answer";
  if (data.rivalSet.has(arm)) return "rival";
  return isGone(data, arm) ? "gone" : "other";
}

/** Whether it is no candidate, however good its scores. */
function isGone(data, arm) {
  return ["failed", "retired"].includes(data.prompts.status[arm]);
}

function statusOf(data, arm) {
  const badges = [];
  if (data.answerSet.has(arm)) badges.push(["answer", data.answer.length > 1 ? "in the answer" : "the answer"]);
  if (data.rivalSet.has(arm)) badges.push(["rival", "may be better"]);
  if (isGone(data, arm)) badges.push(["bad", data.prompts.status[arm]]);
  if (data.baseline === arm) badges.push(["baseline", "baseline"]);
  if (data.prompts.feasible[arm] === false) badges.push(["bad", "misses a threshold"]);
  return badges;
}

function badgesOf(data, arm) {
  return statusOf(data, arm).map(([kind, text]) => [element("span", { class: `badge ${kind}` }, text), " "]);
}

/** What the probability of being in the answer is called. */
function bestName(data) {
  return data.goal.kind === "pareto" ? "P(in set)" : "P(best)";
}

/** An amount of money, with its currency where that is known; never with an exponent. */
function money(data, cost) {
  if (cost === null) return "–";
  const size = Math.abs(cost), shown = size && size < 1e-4 ? cost.toLocaleString("en-US", { maximumSignificantDigits: 3 }) : number(cost);
  return `${shown} ${data.currency}`.trim();
}

/** How many evaluations a cost is given for: those of one may cost too little to be read. */
function evaluationsOf(data) {
  return data.money_per === 1 ? "evaluation" : `${whole(data.money_per)} evaluations`;
}

/** The metric of money, in all that the panels show: for as many evaluations as `money_per` says, with its currency. */
function inReadableMoney(data) {
  const { metrics } = data.goal, j = metrics.findIndex((metric) => metric.name === "cost"), per = data.money_per;
  if (j < 0) return;
  const name = `cost per ${evaluationsOf(data)}${data.currency ? ` in ${data.currency}` : ""}`;
  const times = (value) => (typeof value === "number" ? value * per : value);
  const change = (values, at = j) => { if (values) values[at] = times(values[at]); };
  metrics[j].name = name;
  metrics[j].range = metrics[j].range && metrics[j].range.map(times);
  for (const threshold of metrics[j].thresholds) threshold.bound = times(threshold.bound);
  for (const row of [data.prompts.estimates, data.prompts.errors].flat()) change(row);
  for (const factor of data.factors || []) for (const row of [factor.estimates, factor.errors].flat()) change(row);
  if (data.segments) {
    const at = data.segments.columns.indexOf(j);
    for (const row of [data.segments.means, data.segments.errors].flat(2)) if (at >= 0) change(row, at);
  }
  for (const duel of data.duels) {
    for (const row of duel.rows) for (const scores of [row.a, row.b]) change(scores);
    const { cost, ...others } = duel.differences;
    duel.differences = { ...others, [name]: { ...cost, estimate: times(cost.estimate), low: times(cost.low), high: times(cost.high) } };
  }
  if (data.heat_map) for (const end of ["low", "high"]) change(data.heat_map.pictures[j], end);
  if (data.telling && data.telling.metric === "cost") {
    data.telling.metric = name;
    for (const row of data.telling.rows) for (const key of ["mean", "spread", "difficulty"]) change(row, key);
  }
}

/** The ends of a bar of this size around a mean, within the metric's range. */
function barOf(metric, mean, size) {
  const [low, high] = metric.range || [-Infinity, Infinity];
  return [Math.min(mean, Math.max(low, mean - size)), Math.max(mean, Math.min(high, mean + size))];
}

/** Which way a metric is better: 1 more, -1 less. */
function signOf(metric) {
  if (metric.direction) return metric.direction === "min" ? -1 : 1;
  return metric.thresholds.some((each) => each.at_most) ? -1 : 1;
}

function directionOf(metric) {
  const words = [];
  if (metric.direction) words.push(metric.direction === "min" ? "less is better" : "more is better");
  for (const each of metric.thresholds) words.push(`${each.at_most ? "at most" : "at least"} ${number(each.bound)}`);
  return words.join(", ");
}

/** A prompt's name that leads to its row. */
function promptLink(data, arm) {
  const go = (event) => {
    event.preventDefault();
    showPrompt(arm);
  };
  return element("a", { href: "#prompts", onclick: go }, isolated(brief(data.names[arm], 80))); // breaks as text does
}

/** Names of prompts in a line, the first ones. */
function someIds(data, arms, most = 3) {
  const names = arms.slice(0, most).map((arm) => brief(data.names[arm], 40));
  return names.join(", ") + (arms.length > most ? ` and ${whole(arms.length - most)} more` : "");
}

function textOf(data, arm) {
  const cut = data.prompts.lengths[arm] - Array.from(data.prompts.texts[arm]).length;
  return data.prompts.texts[arm] + (cut > 0 ? ` … (${whole(cut)} more characters)` : "");
}

/** What the panels use, made once of a document as it came. */
function prepared(source) {
  const data = JSON.parse(source), { ids, numbered } = data.prompts;
  data.source = source;
  inReadableMoney(data);
  data.names = numbered ? ids.map((id) => `prompt ${id}`) : ids;
  data.answerSet = new Set(data.answer);
  data.rivalSet = new Set(data.unresolved);
  data.place = new Map(data.order.map((arm, place) => [arm, place]));
  return data;
}
