// Estimates in each segment of the examples: a small chart for each segment, all with the same scale.

function drawSegments(host, data) {
  if (!data.segments) return;
  const { names, columns, arms } = data.segments, keep = kept("segments", { metric: String(columns[0]) });
  host.append(element("p", { class: "say" }, data.words.segments));
  const body = element("div"), controls = [];
  const draw = () => replaceContent(body, segmentPictures(data, Number(keep.metric), Math.max(280, host.clientWidth)));
  if (columns.length > 1) {
    controls.push(choice("Estimate of", columns.map((j) => [String(j), brief(data.goal.metrics[j].name, 40)]), keep.metric, (value) => { keep.metric = value; draw(); }));
  }
  host.append(element("div", { class: "controls" }, controls), body);
  if (names.length && arms.length) draw();
  if (data.segments.assignment) host.append(...assignmentOf(data));
}

/** The prompt to use in each segment, and what it gains there over the single best prompt. */
function assignmentOf(data) {
  const { names, assignment } = data.segments, { single, arms, gains, errors, p_worse: worse } = assignment;
  const metric = data.goal.metrics[data.goal.objectives[0]].name, heads = ["segment", "prompt", `expected gain in ${metric}`, "P(worse)"];
  const rows = names.map((name, g) => [name, data.names[arms[g]], ...(arms[g] === single ? ["–", "–"] : [withError(gains[g], errors[g]), chance(worse[g])])]);
  const title = element("h3", {}, "Is another prompt better in a segment?"), say = element("p", { class: "say" }, isolated(assignment.sentence));
  return arms.every((arm) => arm === single) ? [title, say] : [title, say, plainTable(heads, rows, "The prompt for each segment")];
}

function segmentPictures(data, j, width) {
  const { names, arms, means, errors } = data.segments, metric = data.goal.metrics[j];
  const at = data.segments.columns.indexOf(j);
  const rows = (g) => arms.map((arm, i) => ({ name: data.names[arm], kind: kindOf(data, arm), mean: means[i][g][at], error: errors[i][g][at] }));
  const pictures = smallMultiples(names.map((name, g) => ({ title: name, rows: rows(g) })), metric, width);
  const makeTable = () => plainTable(["segment", ...arms.map((arm) => brief(data.names[arm], 40))],
    names.map((name, g) => [name, ...rows(g).map((row) => withError(row.mean, row.error))]), `${metric.name} by segment`);
  const caption = `${metric.name} in each of ${whole(names.length)} segments, for the ${selectedName(data)} and for prompts that may be better. Bars are one standard error.`;
  return figure(pictures, caption, caption, makeTable);
}

/** Small charts side by side: dots with error bars, a chart for each {title, rows: [{name, kind, mean, error}]}. */
function smallMultiples(groups, metric, width) {
  const across = Math.max(1, Math.min(groups.length, Math.floor(width / 260))), wide = Math.floor(width / across) - 8;
  const all = groups.flatMap((group) => group.rows.filter((row) => row.mean !== null));
  const [low, high] = spanOf(metric, all.map((row) => row.mean), all.map((row) => row.error || 0));
  const space = Math.min(120, Math.max(...all.map((row) => widthOf(brief(row.name, 24), 14))) + 10), step = 20;
  const host = element("div", { class: "multiples" });
  for (const { title, rows } of groups) {
    const height = 24 + step * rows.length + 26, margin = { left: space, right: 10, top: 24, bottom: 24 };
    const x = scale(low, high, margin.left, wide - margin.right);
    const picture = frame(wide, height, margin, x, null, {});
    shadeForbidden(picture, metric, x, margin, wide, height, true);
    picture.append(shape("text", { class: "label", x: 0, y: 14 }, fitted(title, wide)));
    rows.forEach((row, i) => {
      const y = margin.top + step * (i + 0.5);
      picture.append(shape("text", { class: "soft", x: space - 6, y: y + 4, "text-anchor": "end" }, fitted(row.name, space - 8, 14)));
      if (row.mean === null) return;
      const [from, to] = barOf(metric, row.mean, row.error || 0), mark = markOf(row.kind, x(row.mean), y);
      mark.append(shape("title", {}, `${row.name}: ${withError(row.mean, row.error)}`));
      picture.append(line(x(from), y, x(to), y, COLORS[row.kind], 1.5), mark);
    });
    host.append(picture);
  }
  return host;
}

function withError(mean, error) {
  return mean === null ? "–" : `${number(mean)}${error ? ` ± ${number(error)}` : ""}`;
}
