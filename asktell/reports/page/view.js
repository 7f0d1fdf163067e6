// The document, and functions that several panels share.

/** The reader's choices by panel. They are kept when a new document arrives. */
const chosen = {};

function kept(panel, defaults) {
  chosen[panel] = { ...defaults, ...chosen[panel] };
  return chosen[panel];
}

/** The kind of a prompt, which selects its sign. */
function kindOf(data, arm) {
  if (data.answerSet.has(arm)) return "answer";
  if (data.rivalSet.has(arm)) return "rival";
  return isGone(data, arm) ? "gone" : "other";
}

/** True for prompts that cannot be selected, however good their scores. */
function isGone(data, arm) {
  return ["failed", "retired"].includes(data.prompts.status[arm]);
}

function statusOf(data, arm) {
  const badges = [];
  if (data.answerSet.has(arm)) badges.push(["answer", "selected"]);
  if (data.rivalSet.has(arm)) badges.push(["rival", "may be better"]);
  if (isGone(data, arm)) badges.push(["bad", data.prompts.status[arm]]);
  if (data.baseline === arm) badges.push(["baseline", "baseline"]);
  if (data.prompts.feasible[arm] === false) badges.push(["bad", "violates a constraint"]);
  return badges;
}

function badgesOf(data, arm) {
  return statusOf(data, arm).map(([kind, text]) => [element("span", { class: `badge ${kind}` }, text), " "]);
}

/** The selected prompts, for legends and captions. */
function selectedName(data) {
  return data.answer.length > 1 ? "selected prompts" : "selected prompt";
}

/** The name of the probability that a prompt is the best, or in the Pareto set. */
function bestName(data) {
  return data.goal.kind === "pareto" ? "P(in set)" : "P(best)";
}

/** An amount of money without an exponent, with its currency if that is known. */
function money(data, cost) {
  if (cost === null) return "–";
  const size = Math.abs(cost), shown = size && size < 1e-4 ? cost.toLocaleString("en-US", { maximumSignificantDigits: 3 }) : number(cost);
  return `${shown} ${data.currency}`.trim();
}

/** The evaluations that a cost is stated for. The cost of a single one may be too small to read. */
function evaluationsOf(data) {
  return data.money_per === 1 ? "evaluation" : `${whole(data.money_per)} evaluations`;
}

/** Convert the metric "cost" everywhere in the document: to the cost of `money_per` evaluations, with its currency. */
function inReadableMoney(data) {
  const { metrics } = data.goal, j = metrics.findIndex((metric) => metric.name === "cost"), per = data.money_per;
  if (j < 0) return;
  data.moneyMetric = j; // its estimates are the one cost of each prompt on the page
  const name = `cost per ${evaluationsOf(data)}${data.currency ? ` in ${data.currency}` : ""}`;
  const times = (value) => (typeof value === "number" ? value * per : value);
  const change = (values, at = j) => { if (values) values[at] = times(values[at]); };
  metrics[j].name = name;
  metrics[j].range = metrics[j].range && metrics[j].range.map(times);
  for (const threshold of metrics[j].thresholds) threshold.bound = times(threshold.bound);
  for (const row of [data.prompts.estimates, data.prompts.errors].flat()) change(row);
  for (const column of data.prompts.columns.filter(({ array }) => array === "cost plain mean")) {
    data.prompts[column.array] = data.prompts[column.array].map(times);
    column.name = `plain mean of ${name}`;
  }
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

/** The ends of an error bar of this size around a mean, within the metric's range. */
function barOf(metric, mean, size) {
  const [low, high] = metric.range || [-Infinity, Infinity];
  return [Math.min(mean, Math.max(low, mean - size)), Math.max(mean, Math.min(high, mean + size))];
}

/** The better direction of a metric: 1 if higher is better, -1 if lower is. */
function signOf(metric) {
  if (metric.direction) return metric.direction === "min" ? -1 : 1;
  return metric.thresholds.some((each) => each.at_most) ? -1 : 1;
}

function directionOf(metric) {
  const words = [];
  if (metric.direction) words.push(metric.direction === "min" ? "lower is better" : "higher is better");
  for (const { relative, at_most: most, bound } of metric.thresholds) {
    const now = relative ? `${relative}, now ${number(bound)}` : number(bound); // it moves with the estimate of its reference
    words.push(`${most ? "at most" : "at least"} ${now}`);
  }
  return words.join(", ");
}

/** A link with a prompt's name to its row in the table. */
function promptLink(data, arm) {
  const go = (event) => {
    event.preventDefault();
    showPrompt(arm);
  };
  return element("a", { href: "#prompts", onclick: go }, isolated(brief(data.names[arm], 80))); // a link, because buttons do not break lines
}

/** A prompt's name in a sentence: an id in quotes, or "prompt" with its number. */
function quoted(data, arm, length = 80) {
  const name = brief(data.names[arm], length);
  return data.prompts.numbered ? name : `"${name}"`;
}

/** The names of the first prompts, in one line. */
function someIds(data, arms, most = 3) {
  const names = arms.slice(0, most).map((arm) => quoted(data, arm, 40));
  return names.join(", ") + (arms.length > most ? ` and ${whole(arms.length - most)} more` : "");
}

function textOf(data, arm) {
  const cut = data.prompts.lengths[arm] - Array.from(data.prompts.texts[arm]).length;
  return data.prompts.texts[arm] + (cut > 0 ? ` … (${whole(cut)} more characters)` : "");
}

/** Parse a document, and add what the panels use. */
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
