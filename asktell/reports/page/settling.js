// How the answer settled: what would have been said after so many evaluations, or so much money.

function drawSettling(host, data) {
  host.append(element("p", { class: "say" }, data.words.settling));
  const points = data.settling;
  if (points.length < 2) return;
  const keep = kept("settling", { x: "evaluations", metric: String(data.goal.objectives[0]) });
  const body = element("div"), controls = [];
  const draw = () => replaceContent(body, settlingPictures(data, points, keep, Math.max(280, host.clientWidth)));
  if (points[points.length - 1].cost > 0) controls.push(choice("Against", [["evaluations", "evaluations"], ["cost", "money"]], keep.x, (value) => { keep.x = value; draw(); }));
  if (data.goal.metrics.length > 1) {
    controls.push(choice("Estimate of", data.goal.metrics.map((metric, j) => [String(j), brief(metric.name, 40)]), keep.metric, (value) => { keep.metric = value; draw(); }));
  }
  host.append(element("div", { class: "controls" }, controls), body);
  draw();
}

function settlingPictures(data, points, keep, width) {
  const j = Number(keep.metric), metric = data.goal.metrics[j], pictures = [];
  const changes = points.map((point, i) => i > 0 && (point.size !== points[i - 1].size || point.answer.some((arm) => !points[i - 1].answer.includes(arm))));
  const sure = data.goal.kind === "pareto" ? "agreement" : "p_right";
  const names = { p_right: "P(the answer of that moment is right)", agreement: "expected agreement with the true front (F1)" };
  if (points.some((point) => point[sure] !== null)) {
    pictures.push(curve(data, points, keep, width, { name: names[sure], low: 0, high: 1, value: (point) => point[sure], error: () => null, changes, shown: chance }));
  }
  const values = points.filter((point) => point.estimate && point.estimate[j] !== null);
  if (values.length) {
    const means = values.map((point) => point.estimate[j]), errors = values.map((point) => point.error[j] || 0);
    // The first moments' errors may be many times as large as all that is to be seen: the band is cut there.
    const most = Math.max(Math.max(...means) - Math.min(...means), 2 * [...errors].sort((a, b) => a - b)[Math.floor(errors.length / 2)]);
    const span = spanOf(metric, means, errors.map((error) => Math.min(error, most)));
    pictures.push(curve(data, points, keep, width, {
      name: `estimate of the first prompt of the answer in ${brief(metric.name, 40)}`, low: span[0], high: span[1], metric, changes,
      value: (point) => (point.estimate ? point.estimate[j] : null), error: (point) => (point.error ? point.error[j] : null), shown: number,
    }));
  }
  return pictures;
}

function curve(data, points, keep, width, what) {
  const height = 220, margin = { left: 58, right: 16, top: 24, bottom: 42 };
  const known_ = points.filter((point) => what.value(point) !== null);
  const x = scale(0, points[points.length - 1][keep.x], margin.left, width - margin.right, 0.02);
  const y = scale(what.low, what.high, height - margin.bottom, margin.top);
  const picture = frame(width, height, margin, x, y, { x: keep.x === "cost" ? "money" : "evaluations", y: what.name });
  if (what.metric) shadeForbidden(picture, what.metric, y, margin, width, height, false);
  const within = (value) => Math.max(margin.top, Math.min(height - margin.bottom, y(value)));
  const at = (point) => [x(point[keep.x]), y(what.value(point))];
  const banded = known_.filter((point) => what.error(point));
  if (banded.length > 1) {
    const upper = banded.map((point) => `${x(point[keep.x])},${within(barOf(what.metric, what.value(point), what.error(point))[1])}`);
    const lower = banded.map((point) => `${x(point[keep.x])},${within(barOf(what.metric, what.value(point), what.error(point))[0])}`).reverse();
    const band = shape("polygon", { points: [...upper, ...lower].join(" "), opacity: 0.18 });
    band.style.fill = "var(--answer)";
    picture.append(band);
  }
  const path = shape("polyline", { points: known_.map((point) => at(point).join(",")).join(" "), fill: "none", "stroke-width": 2 });
  path.style.stroke = "var(--answer)";
  picture.append(path);
  for (const point of known_) {
    const changed = what.changes[points.indexOf(point)];
    const mark = changed ? markOf("answer", ...at(point)) : shape("circle", { cx: at(point)[0], cy: at(point)[1], r: 3 });
    mark.style.fill = changed ? "var(--baseline)" : "var(--answer)";
    mark.append(shape("title", {}, `after ${whole(point.evaluations)}: ${what.shown(what.value(point))}; ${someIds(data, point.answer)}`));
    picture.append(mark);
  }
  const band = banded.length > 1 ? " The band is one standard error." : "";
  const caption = `Recomputed at ${whole(points.length)} moments from the evaluations up to then. Diamonds mark changes of the answer.${band}`;
  const rows = () => plainTable(["evaluations", "money", what.name, "answer"], points.map((point) => [
    point.evaluations, number(point.cost), what.value(point) === null ? "–" : what.shown(what.value(point)), someIds(data, point.answer)]), what.name);
  return figure(picture, `${what.name}: from ${what.shown(what.value(known_[0]))} to ${what.shown(what.value(known_[known_.length - 1]))}`, caption, rows);
}
