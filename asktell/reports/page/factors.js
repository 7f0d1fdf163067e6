// The factors of candidates, such as the model or the prompt: a small chart for each.

const MOST_LEVELS = 20;

function drawFactors(host, data) {
  if (!data.factors) return;
  host.append(element("p", { class: "say" }, data.words.factors));
  if (!data.factors.length) return;
  const keep = kept("factors", { metric: String(data.goal.objectives[0]) }), body = element("div"), controls = [];
  const draw = () => replaceContent(body, factorPictures(data, Number(keep.metric), Math.max(280, host.clientWidth)));
  if (data.goal.metrics.length > 1) {
    controls.push(choice("Estimate of", data.goal.metrics.map((metric, j) => [String(j), brief(metric.name, 40)]), keep.metric, (value) => { keep.metric = value; draw(); }));
  }
  host.append(element("div", { class: "controls" }, controls), body);
  draw();
}

function factorPictures(data, j, width) {
  const metric = data.goal.metrics[j], sign = signOf(metric);
  const groups = data.factors.map(({ name, levels, estimates, errors, answer }) => {
    const rows = levels.map((level, i) => ({ name: level, kind: answer.includes(i) ? "answer" : "other", mean: estimates[i][j], error: errors[i][j] }));
    return { title: name, rows: rows.filter((row) => row.mean !== null).sort((a, b) => sign * (b.mean - a.mean)) };
  });
  const shown = groups.map(({ title, rows }) => ({ title, rows: rows.slice(0, MOST_LEVELS) }));
  const makeTable = () => plainTable(["factor", "level", metric.name], groups.flatMap(({ title, rows }) => rows.map((row) => [title, row.name, withError(row.mean, row.error)])), `${metric.name} by factor`);
  const cut = groups.some((group) => group.rows.length > MOST_LEVELS) ? ` Only the best ${whole(MOST_LEVELS)} levels of a factor are drawn.` : "";
  const caption = `${metric.name} of each level, averaged over all candidates with this level, the best first. Diamonds are levels of the selected ${data.answer.length > 1 ? "candidates" : "candidate"}. Bars are one standard error.${cut}`;
  return figure(smallMultiples(shown, metric, width), caption, caption, makeTable);
}
