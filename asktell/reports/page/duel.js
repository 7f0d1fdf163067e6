// Two prompts compared example by example, the worst regressions first.

function drawDuel(host, data) {
  const { duels } = data, ids = data.names;
  host.append(element("p", { class: "say" }, data.words.duel));
  if (!duels.length) return;
  const keep = kept("duel", { which: "0", metric: String(data.goal.objectives[0]), show: "all", table: {} });
  if (!duels[Number(keep.which)]) keep.which = "0";
  const body = element("div");
  const draw = () => {
    keep.table = {};
    replaceContent(body, duelView(data, duels[Number(keep.which)], keep, Math.max(280, host.clientWidth)));
  };
  const set = (name) => (value) => {
    keep[name] = value;
    draw();
  };
  const controls = [];
  if (duels.length > 1) controls.push(choice("Against", duels.map((duel, i) => [String(i), `the ${duel.what}, ${quoted(data, duel.b, 40)}`]), keep.which, set("which")));
  if (data.goal.metrics.length > 1) controls.push(choice("Metric", data.goal.metrics.map((metric, j) => [String(j), brief(metric.name, 40)]), keep.metric, set("metric")));
  controls.push(choice("Show", [["all", "every common example"], ["losses", "losses"], ["wins", "wins"]], keep.show, set("show")));
  host.append(element("div", { class: "controls" }, controls), body);
  draw();
}

function duelView(data, duel, keep, width) {
  const j = Number(keep.metric), metric = data.goal.metrics[j], ids = data.names, sign = signOf(metric);
  if (!duel.pairs) return element("p", {}, "The two prompts have no common examples yet.");
  const ahead = (row) => sign * (row.a[j] - row.b[j]);
  const [wins, ties, losses] = duel.counts[j];
  const rows = duel.rows.filter((row) => keep.show === "all" || (keep.show === "losses" ? ahead(row) < 0 : ahead(row) > 0));
  const cut = duel.pairs > duel.rows.length ? `The table has the ${whole(duel.rows.length)} of ${whole(duel.pairs)} common examples with the largest differences. ` : "";
  const answers = duel.answers ? "Open a row to see both responses side by side." : "The responses were not stored.";
  const columns = [
    { name: "example", kind: "id", value: (row) => row.example, cell: (row) => isolated(exampleName(data, row.example)) },
    { name: brief(ids[duel.a], 30), kind: "number", value: (row) => row.a[j], cell: (row) => number(row.a[j]) },
    { name: brief(ids[duel.b], 30), kind: "number", value: (row) => row.b[j], cell: (row) => number(row.b[j]) },
    { name: "difference", kind: "number", value: (row) => row.a[j] - row.b[j], cell: (row) => signed(row.a[j] - row.b[j]) },
    { name: "outcome", value: (row) => ahead(row), cell: (row) => (ahead(row) < 0 ? "loss" : ahead(row) > 0 ? "win" : "tie") },
  ];
  const detail = duel.answers ? (row) => sideBySide(data, duel, row) : null;
  return [
    element("p", {}, promptLink(data, duel.a), " against ", promptLink(data, duel.b), `: ${whole(wins)} wins, ${whole(ties)} ties and ${whole(losses)} losses in `, isolated(metric.name), "."),
    element("p", {}, differenceText(duel.differences[metric.name], duel.confidence)),
    duelPicture(data, duel, j, width),
    element("p", { class: "soft" }, cut + answers),
    table(columns, rows, { keep: keep.table, sort: [4, 1], detail, label: "examples that both have seen" }),
  ];
}

/** A difference in words and numbers, with its interval. */
function differenceText({ estimate: mean, low, high, pairs, verdict }, confidence) {
  const on = `${whole(pairs)} common ${pairs === 1 ? "example" : "examples"}`;
  const amount = mean === null ? "" : `: ${signed(mean)}`;
  const word = verdict.charAt(0).toUpperCase() + verdict.slice(1);
  if (low === null || high === null) return `${word}${amount}. ${on} completed in order by both prompts: too few for an interval.`;
  if (low === high) return `${word}${amount}, on ${on}.`;
  return `${word}${amount}, ${percent(confidence)} interval ${signed(low)} to ${signed(high)}, on ${on} completed in order.`;
}

/** A bar for each difference, from the worst loss to the best win. */
function duelPicture(data, duel, j, width) {
  const metric = data.goal.metrics[j], sign = signOf(metric), ids = data.names;
  const rows = [...duel.rows].sort((p, q) => sign * (p.a[j] - p.b[j]) - sign * (q.a[j] - q.b[j]));
  const height = 200, margin = { left: 58, right: 14, top: 24, bottom: 28 };
  const values = rows.map((row) => row.a[j] - row.b[j]);
  const y = scale(values.reduce((a, b) => Math.min(a, b), 0), values.reduce((a, b) => Math.max(a, b), 0), height - margin.bottom, margin.top);
  const picture = frame(width, height, margin, null, y, { x: width < 500 ? "examples, the worst first" : "common examples, the worst for the selected prompt first", y: `${quoted(data, duel.a, 24)} minus ${quoted(data, duel.b, 24)} in ${brief(metric.name, 30)}` });
  const step = (width - margin.left - margin.right) / rows.length;
  rows.forEach((row, i) => {
    const value = values[i], top = Math.min(y(value), y(0));
    const bar = shape("rect", { x: margin.left + i * step, y: top, width: Math.max(0.6, Math.min(step - (step > 4 ? 1 : 0), 40)), height: Math.max(value ? 1 : 0, Math.abs(y(value) - y(0))) });
    bar.style.fill = sign * value < 0 ? "var(--bad)" : "var(--good)";
    if (rows.length <= 300) bar.append(shape("title", {}, `${exampleName(data, row.example)}: ${signed(value)}`));
    picture.append(bar);
  });
  picture.append(line(margin.left, y(0), width - margin.right, y(0), "var(--text)", 1.2));
  const makeTable = () => plainTable(["example", "difference"], rows.map((row, i) => [exampleName(data, row.example), signed(values[i])]), "differences");
  return figure(picture, `${metric.name}: differences on ${whole(rows.length)} examples, from ${signed(values[0])} to ${signed(values[values.length - 1])}`,
    `${sign > 0 ? "Above" : "Below"} the line, ${ids[duel.a].length > 60 ? "the selected prompt" : quoted(data, duel.a)} is better.`, makeTable);
}

function sideBySide(data, duel, row) {
  const ids = data.names;
  const [a, b] = row.answers || [null, null];
  const one = (arm, text) => element("div", {}, element("h3", {}, isolated(brief(ids[arm], 60))), text === null ? element("p", { class: "soft" }, "not stored") : element("pre", { class: "text", dir: "auto", tabindex: "0" }, text));
  const scores = data.goal.metrics.map((metric, j) => [isolated(metric.name), `: ${number(row.a[j])} and ${number(row.b[j])}. `]);
  return element("div", {}, element("p", {}, scores), element("div", { class: "side" }, one(duel.a, a), one(duel.b, b)));
}
