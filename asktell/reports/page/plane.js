// Charts of the estimates: a scatter plot of two metrics, ranked intervals of one, parallel coordinates of all.

const MOST_BARS = 300;
const MOST_ROWS = 30; // prompts in ranked intervals that have a row with a name
const TITLES = { plane: "Scatter plot", ranked: "Ranked intervals", parallel: "Parallel coordinates" };

/** The metrics, without the objective, that some prompts can win or lose by: those that all of them satisfy decide nothing. */
function decisive(data) {
  const { metrics, objectives } = data.goal, { estimates, errors } = data.prompts;
  if (objectives.length > 1) return objectives.slice(1);
  return [...metrics.keys()].filter((j) => j !== objectives[0] && metrics[j].thresholds.some(({ bound, at_most: most }) => known(data, j).some((arm) => {
    const spare = (most ? bound - estimates[arm][j] : estimates[arm][j] - bound);
    return spare < 2 * (errors[arm][j] || 0);
  })));
}

function drawPlane(host, data) {
  const { metrics } = data.goal;
  const [first] = data.goal.objectives, others = decisive(data);
  const second = others.length ? others[0] : metrics.findIndex((_, j) => j !== first);
  const keep = kept("plane", { view: others.length ? "plane" : "ranked", x: String(first), y: String(second), metric: String(first) });
  const body = element("div"), controls = element("div", { class: "controls" });
  const names = metrics.map((metric, j) => [String(j), brief(metric.name, 40)]);

  function draw() {
    const width = Math.max(280, host.clientWidth);
    const pictures = { plane: planePicture, ranked: rankedPicture, parallel: parallelPicture };
    replaceContent(body, pictures[keep.view](data, keep, width));
  }

  function drawControls() {
    const set = (name) => (value) => {
      keep[name] = value;
      if (name === "view") drawControls();
      draw();
      const again = [...controls.querySelectorAll("select")].find((each) => each.dataset.name === name);
      if (again && name === "view") again.focus();
    };
    const items = [];
    const add = (text, options, name) => {
      const node = choice(text, options, keep[name], set(name));
      node.querySelector("select").dataset.name = name;
      items.push(node);
    };
    if (metrics.length > 1) {
      const views = Object.entries(TITLES).filter(([key]) => key !== "parallel" || metrics.length > 2);
      add("Chart", views, "view");
    }
    if (keep.view === "plane") {
      add("X axis", names, "x");
      add("Y axis", names, "y");
    }
    if (keep.view === "ranked" && metrics.length > 1) add("Metric", names, "metric");
    replaceContent(controls, items);
  }

  host.append(element("p", { class: "say" }, data.words.plane), controls, body);
  drawControls();
  draw();
}

function known(data, ...metrics) {
  return data.order.filter((arm) => metrics.every((j) => data.prompts.estimates[arm][j] !== null));
}

function signsLegend(data, more = []) {
  const items = [["answer", selectedName(data)]];
  if (data.unresolved.length) items.push(["rival", "may be better"]);
  if (data.order.some((arm) => kindOf(data, arm) === "other")) items.push(["other", "other prompts"]);
  if (data.names.some((_, arm) => isGone(data, arm))) items.push(["gone", "failed or retired"]);
  if (data.baseline !== null) items.push(["baseline", "baseline"]);
  return element("div", {}, legend([...items, ...more]));
}

/** The prompts in the order in which they are drawn: the selected ones last, on top. */
function byImportance(data, arms) {
  const rank = { other: 0, gone: 0, rival: 1, answer: 2 };
  return [...arms].sort((a, b) => rank[kindOf(data, a)] - rank[kindOf(data, b)]);
}

/** The names to write next to points, those of contenders first. A contender has its name wherever there is space. */
function named(data, arms, place) {
  const first = arms.filter((arm) => data.baseline === arm || kindOf(data, arm) === "answer");
  const then = arms.filter((arm) => data.baseline !== arm && kindOf(data, arm) === "rival").slice(0, data.unresolved.length > 2 * MOST_LABELS ? 5 : MOST_LABELS);
  const rest = arms.length <= MOST_LABELS ? arms.filter((arm) => data.baseline !== arm && isFaint(kindOf(data, arm))) : [];
  return [...first, ...then, ...rest].map((arm) => {
    const [x, y] = place(arm);
    return { x, y, must: !isFaint(kindOf(data, arm)) || data.baseline === arm, text: data.names[arm], color: data.baseline === arm ? COLORS.baseline : COLORS[kindOf(data, arm)] };
  });
}

/**
 * The lowest and the highest number that a chart of these bars has to show. A limit extends the chart by its own width at
 * most, so that a limit far from all prompts does not press them together.
 */
function spanOf(metric, means, errors = []) {
  const ends = means.flatMap((mean, i) => barOf(metric, mean, errors[i] || 0));
  let low = ends.reduce((a, b) => Math.min(a, b), Infinity), high = ends.reduce((a, b) => Math.max(a, b), -Infinity);
  const size = isWide(low, high) ? high - low : Math.abs(high) || 1;
  const near = metric.thresholds.map((each) => each.bound).filter((bound) => bound >= low - size && bound <= high + size);
  for (const bound of near) [low, high] = [Math.min(low, bound), Math.max(high, bound)];
  return [low, high];
}

function axisName(metric) {
  const words = directionOf(metric);
  return brief(metric.name, 60) + (words ? ` (${words})` : "");
}

function planePicture(data, keep, width) {
  const j = Number(keep.x), k = Number(keep.y), { metrics } = data.goal, { estimates, errors } = data.prompts;
  if (j === k) return rankedPicture(data, { metric: keep.x }, width);
  const arms = known(data, j, k), height = Math.round(Math.max(320, Math.min(400, width * 0.6)));
  if (!arms.length) return element("p", {}, "No prompt has an estimate yet.");
  const margin = { left: 58, right: 14, top: 24, bottom: 44 };
  const along = (i, from, to) => scale(...spanOf(metrics[i], arms.map((arm) => estimates[arm][i]), arms.map((arm) => errors[arm][i])), from, to);
  const x = along(j, margin.left, width - margin.right), y = along(k, height - margin.bottom, margin.top);
  const picture = frame(width, height, margin, x, y, { x: axisName(metrics[j]), y: axisName(metrics[k]) });
  shadeForbidden(picture, metrics[j], x, margin, width, height, true);
  shadeForbidden(picture, metrics[k], y, margin, width, height, false);
  if (data.goal.kind === "pareto") drawFront(picture, data, j, k, x, y);
  const withBars = arms.length <= MOST_BARS, few = data.unresolved.length <= MOST_LABELS * 2;
  for (const arm of byImportance(data, arms)) {
    const kind = kindOf(data, arm), at = [x(estimates[arm][j]), y(estimates[arm][k])];
    if (withBars || kind === "answer" || (kind === "rival" && few)) drawBars(picture, at, [j, k].map((i) => errors[arm][i] && barOf(metrics[i], estimates[arm][i], errors[arm][i])), x, y, kind);
    const mark = markOf(kind, ...at);
    mark.append(shape("title", {}, `${data.names[arm]}: ${metrics[j].name} ${estimate(estimates[arm][j], errors[arm][j])}, ${metrics[k].name} ${estimate(estimates[arm][k], errors[arm][k])}`));
    mark.addEventListener("click", () => showPrompt(arm));
    mark.style.cursor = "pointer";
    picture.append(mark);
    if (data.baseline === arm) picture.append(markOf("baseline", ...at));
  }
  const place = (arm) => [x(estimates[arm][j]), y(estimates[arm][k])];
  const unnamed = placeLabels(picture, named(data, arms, place), arms.map(place), margin.left + 2, width - margin.right, height - margin.bottom);
  const withoutBars = ` Only the ${selectedName(data)}${few && data.unresolved.length ? " and prompts that may be better" : ""} have bars.`;
  const bars = `Bars are one standard error.${withBars ? "" : withoutBars}`;
  const caption = `${bars} ${thresholdWords(metrics[j], metrics[k])}${unnamedWords(unnamed, arms)}`;
  const rows = () => plainTable(["prompt", metrics[j].name, metrics[k].name, "status"], arms.map((arm) => [
    data.names[arm], estimate(estimates[arm][j], errors[arm][j]), estimate(estimates[arm][k], errors[arm][k]), statusOf(data, arm).map((each) => each[1]).join(", ")]), "scatter plot");
  const name = `${whole(arms.length)} prompts by ${metrics[j].name} and ${metrics[k].name}, ${selectedName(data)}: ${someIds(data, data.answer)}`;
  return [figure(picture, name, caption, rows), signsLegend(data)];
}

function thresholdWords(...metrics) {
  return metrics.some((metric) => metric.thresholds.length) ? "The shaded side of a dashed line violates a constraint. " : "";
}

/** Shade the side of each limit that violates it. A limit outside of the chart has no line, and shades all of it or nothing. */
function shadeForbidden(picture, metric, place, margin, width, height, upright) {
  const [from, to] = upright ? [margin.left, width - margin.right] : [margin.top, height - margin.bottom];
  for (const { bound, at_most: atMost } of metric.thresholds) {
    const at = Math.min(to, Math.max(from, place(bound))), far = upright === atMost ? to : from, size = Math.abs(far - at);
    const area = upright
      ? { x: Math.min(at, far), y: margin.top, width: size, height: height - margin.bottom - margin.top }
      : { x: margin.left, y: Math.min(at, far), width: width - margin.right - margin.left, height: size };
    const shaded = shape("rect", area);
    shaded.style.fill = "var(--shade)";
    if (size) picture.append(shaded);
    if (at !== place(bound)) continue;
    const edge = upright ? line(at, margin.top, at, height - margin.bottom, "var(--bad)", 1.5) : line(margin.left, at, width - margin.right, at, "var(--bad)", 1.5);
    edge.setAttribute("stroke-dasharray", "6 4");
    picture.append(edge);
  }
}

function drawBars(picture, at, [across, up], x, y, kind) {
  const color = COLORS[kind], opacity = isFaint(kind) ? 0.45 : 0.8;
  if (across) picture.append(line(x(across[0]), at[1], x(across[1]), at[1], color, 1, opacity));
  if (up) picture.append(line(at[0], y(up[0]), at[0], y(up[1]), color, 1, opacity));
}

/** The staircase through the selected prompts that no other selected prompt dominates in these two metrics. */
function drawFront(picture, data, j, k, x, y) {
  const signs = [signOf(data.goal.metrics[j]), signOf(data.goal.metrics[k])], { estimates } = data.prompts;
  const points = data.answer.filter((arm) => estimates[arm][j] !== null && estimates[arm][k] !== null)
    .map((arm) => [signs[0] * estimates[arm][j], signs[1] * estimates[arm][k]]).sort((a, b) => b[0] - a[0] || b[1] - a[1]);
  const front = [];
  for (const point of points) if (!front.length || point[1] > front[front.length - 1][1]) front.push(point);
  if (front.length < 2) return;
  const steps = front.map(([a, b], i) => {
    const px = x(signs[0] * a), py = y(signs[1] * b);
    return i === 0 ? `M${px} ${py}` : `L${x(signs[0] * front[i][0])} ${y(signs[1] * front[i - 1][1])}L${px} ${py}`;
  });
  const path = shape("path", { d: steps.join(""), fill: "none", "stroke-width": 2, opacity: 0.55 });
  path.style.stroke = "var(--answer)";
  picture.append(path);
}

/** A sentence on the prompts whose names are not in the chart. */
function unnamedWords(unnamed, arms) {
  const without = unnamed.length ? `No space was left for ${unnamed.slice(0, 5).join(", ")}${unnamed.length > 5 ? ` and ${whole(unnamed.length - 5)} more` : ""}. ` : "";
  return without + (arms.length > MOST_LABELS ? `At most ${MOST_LABELS} names are shown. Point at other prompts to see theirs.` : "");
}

/** One metric: the prompts from best to worst with their intervals. Few prompts have a row each, with their names. */
function rankedPicture(data, keep, width) {
  const j = Number(keep.metric), metric = data.goal.metrics[j], { estimates, errors } = data.prompts;
  const sign = signOf(metric), arms = known(data, j).sort((a, b) => sign * (estimates[b][j] - estimates[a][j]));
  if (!arms.length) return element("p", {}, "No prompt has an estimate yet.");
  const span = spanOf(metric, arms.map((arm) => estimates[arm][j]), arms.map((arm) => 2 * errors[arm][j]));
  const [picture, unnamed] = (arms.length <= MOST_ROWS ? rankedRows : rankedColumns)(data, arms, j, span, width);
  const caption = `Bars are two standard errors, about 95% confidence. ${thresholdWords(metric)}${unnamed}`;
  const rows = () => plainTable(["prompt", metric.name, "status"], arms.map((arm) => [
    data.names[arm], estimate(estimates[arm][j], errors[arm][j]), statusOf(data, arm).map((each) => each[1]).join(", ")]), "ranked intervals");
  return [figure(picture, `${whole(arms.length)} prompts ranked by ${metric.name}, the first: ${someIds(data, arms)}`, caption, rows), signsLegend(data)];
}

/** Draw a mark that opens its prompt, with the sign of the baseline around it. */
function markPrompt(picture, data, arm, j, [x, y], mark) {
  mark.append(shape("title", {}, `${data.names[arm]}: ${estimate(data.prompts.estimates[arm][j], data.prompts.errors[arm][j])}`));
  mark.addEventListener("click", () => showPrompt(arm));
  mark.style.cursor = "pointer";
  picture.append(mark);
  if (data.baseline === arm) picture.append(markOf("baseline", x, y));
}

/** Ranked intervals with a row and a name for each prompt. */
function rankedRows(data, arms, j, span, width) {
  const metric = data.goal.metrics[j], { estimates, errors } = data.prompts, step = arms.length > 14 ? 18 : 24;
  const longest = Math.max(...arms.map((arm) => widthOf(data.names[arm], 13))) + 18;
  const margin = { left: Math.round(Math.min(longest, width * 0.42)), right: 14, top: 8, bottom: 44 };
  const height = margin.top + margin.bottom + Math.max(2, arms.length) * step, x = scale(...span, margin.left, width - margin.right);
  const picture = frame(width, height, margin, x, null, { x: axisName(metric) });
  shadeForbidden(picture, metric, x, margin, width, height, true);
  arms.forEach((arm, i) => {
    const mean = estimates[arm][j], error = errors[arm][j], kind = kindOf(data, arm), at = [x(mean), margin.top + (i + 0.5) * step];
    const name = shape("text", { class: "label", x: margin.left - 10, y: at[1] + 4, "text-anchor": "end" }, fitted(data.names[arm], margin.left - 14, 13));
    name.style.fill = data.baseline === arm ? COLORS.baseline : isFaint(kind) ? "var(--soft)" : COLORS[kind];
    name.style.fontWeight = isFaint(kind) ? "400" : "600";
    picture.append(name);
    if (error) picture.append(line(...barOf(metric, mean, 2 * error).flatMap((end) => [x(end), at[1]]), COLORS[kind], 3, isFaint(kind) ? 0.6 : 1));
    markPrompt(picture, data, arm, j, at, markOf(kind, ...at));
  });
  return [picture, ""];
}

/** Ranked intervals of many prompts, with a column for each. */
function rankedColumns(data, arms, j, span, width) {
  const metric = data.goal.metrics[j], { estimates, errors } = data.prompts;
  const height = 360, margin = { left: 58, right: 14, top: 24, bottom: 44 };
  const y = scale(...span, height - margin.bottom, margin.top);
  const step = (width - margin.left - margin.right) / arms.length, at = (i) => margin.left + (i + 0.5) * step;
  const picture = frame(width, height, margin, null, y, { x: `prompts, the best by ${brief(metric.name, 40)} first`, y: axisName(metric) });
  shadeForbidden(picture, metric, y, margin, width, height, false);
  const left = new Map(arms.map((arm, i) => [arm, at(i)])), place = (arm) => [left.get(arm), y(estimates[arm][j])];
  for (const arm of byImportance(data, arms)) {
    const mean = estimates[arm][j], error = errors[arm][j], kind = kindOf(data, arm), [across, up] = place(arm);
    if (error) picture.append(line(...barOf(metric, mean, 2 * error).flatMap((end) => [across, y(end)]), COLORS[kind], Math.min(3, Math.max(1, step / 3)), isFaint(kind) ? 0.6 : 1));
    const mark = isFaint(kind) && step < 6 ? shape("circle", { cx: across, cy: up, r: 1.6 }) : markOf(kind, across, up);
    markPrompt(picture, data, arm, j, [across, up], mark);
  }
  const unnamed = placeLabels(picture, named(data, arms, place), arms.map(place), margin.left + 2, width - margin.right, height - margin.bottom);
  return [picture, unnamedWords(unnamed, arms)];
}

/** Parallel coordinates: a vertical axis for each metric, better at the top, and a line for each prompt. */
function parallelPicture(data, keep, width) {
  const { metrics } = data.goal, { estimates } = data.prompts, height = 400, margin = { left: 60, right: 60, top: 40, bottom: 30 };
  const arms = known(data, ...metrics.keys());
  if (!arms.length) return element("p", {}, "No prompt has an estimate in every metric yet.");
  const gap = (width - margin.left - margin.right) / (metrics.length - 1);
  const axes = metrics.map((metric, j) => {
    const span = spanOf(metric, arms.map((arm) => estimates[arm][j]));
    return signOf(metric) > 0 ? scale(...span, height - margin.bottom, margin.top) : scale(...span, margin.top, height - margin.bottom);
  });
  const picture = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const few = data.unresolved.length <= MOST_LABELS * 2; // many dotted lines are a blur, and take seconds to paint
  for (const arm of byImportance(data, arms)) {
    const kind = data.baseline === arm ? "baseline" : kindOf(data, arm), faint = isFaint(kind) || (kind === "rival" && !few);
    const path = shape("polyline", { points: metrics.map((_, j) => `${margin.left + j * gap},${axes[j](estimates[arm][j])}`).join(" "), fill: "none",
      "stroke-width": faint ? 1 : 2.2, opacity: faint ? Math.max(0.12, Math.min(0.5, 60 / arms.length)) : 0.9,
      "stroke-dasharray": kind === "baseline" ? "7 4" : kind === "rival" && few ? "2 3" : null });
    path.style.stroke = COLORS[kind];
    path.append(shape("title", {}, data.names[arm]));
    picture.append(path);
  }
  metrics.forEach((metric, j) => {
    const at = margin.left + j * gap, anchor = j === 0 ? "start" : j === metrics.length - 1 ? "end" : "middle";
    const edge = j === 0 ? 4 : j === metrics.length - 1 ? width - 4 : at;
    picture.append(shape("line", { class: "axis", x1: at, x2: at, y1: margin.top, y2: height - margin.bottom }));
    picture.append(shape("text", { x: edge, y: j % 2 && metrics.length > 3 ? 30 : 14, "text-anchor": anchor }, fitted(metric.name, Math.min(gap * (metrics.length > 3 ? 1.6 : 0.9), 220), 13)));
    for (const tick of axes[j].ticks(6)) {
      const up = axes[j](tick);
      if (up < margin.top - 1 || up > height - margin.bottom + 1) continue;
      picture.append(shape("line", { class: "axis", x1: at - 4, x2: at, y1: up, y2: up }));
      picture.append(shape("text", { class: "soft", x: at - 7, y: up + 4, "text-anchor": "end" }, number(tick)));
    }
    const isInside = ({ bound }) => bound >= axes[j].low && bound <= axes[j].high;
    for (const { bound } of metric.thresholds.filter(isInside)) picture.append(line(at - 12, axes[j](bound), at + 12, axes[j](bound), "var(--bad)", 3));
  });
  const lines = [data.answer.length > 1 ? "Solid lines are the selected prompts" : "The solid line is the selected prompt"];
  if (data.unresolved.length) lines.push(`${few ? "dotted" : "faint"} lines are prompts that may be better`);
  if (data.baseline !== null) lines.push("the dashed line is the baseline");
  const bounds = metrics.some((metric) => metric.thresholds.length) ? " Bars across an axis are constraints." : "";
  const caption = `Higher is better on every axis. ${lines.join(", ")}.${bounds}`;
  const rows = () => plainTable(["prompt", ...metrics.map((metric) => metric.name)], arms.map((arm) => [data.names[arm], ...estimates[arm].map(number)]), "parallel coordinates");
  return figure(picture, `${whole(arms.length)} prompts over ${metrics.length} metrics, ${selectedName(data)}: ${someIds(data, data.answer)}`, caption, rows);
}
