// Two prompts compared example by example, the worst regressions first.

const OUTCOMES = [
  ["all", "every common example", () => true],
  ["differs", "examples that differ", (ahead) => ahead !== 0],
  ["losses", "losses", (ahead) => ahead < 0],
  ["wins", "wins", (ahead) => ahead > 0],
];

function drawDuel(host, data) {
  const { duels } = data;
  host.append(element("p", { class: "say" }, data.words.duel));
  if (!duels.length) return;
  const keep = kept("duel", { which: "0", metric: String(duels[0].metric), show: "all", search: "", table: {} });
  if (!duels[Number(keep.which)]) keep.which = "0";
  const body = element("div"), controls = element("div", { class: "controls" });
  const duel = () => duels[Number(keep.which)];
  const draw = () => {
    keep.table = {};
    if (keep.show === "failed" && !duel().failed.length) keep.show = "all";
    replaceContent(body, duelView(data, duel(), keep, Math.max(280, host.clientWidth)));
  };
  const add = (text, options, name) => controls.append(choice(text, options, keep[name], (value) => {
    keep[name] = value;
    draw();
  }));
  if (duels.length > 1) add("Against", duels.map((each, i) => [String(i), `the ${each.what}, ${quoted(data, each.b, 40)}`]), "which");
  if (data.goal.metrics.length > 1) add("Metric", data.goal.metrics.map((metric, j) => [String(j), brief(metric.name, 40)]), "metric");
  host.append(controls, body);
  draw();
}

function duelView(data, duel, keep, width) {
  const j = Number(keep.metric), metric = data.goal.metrics[j];
  if (!duel.pairs && !duel.failed.length) return element("p", {}, "The two prompts have no common examples yet.");
  const [wins, ties, losses] = duel.counts[j];
  const cut = duel.pairs > duel.rows.length ? ` The list has the ${whole(duel.rows.length)} of ${whole(duel.pairs)} common examples with the largest differences.` : "";
  const stored = duel.answers ? "" : " The responses were not stored.";
  return [
    element("p", {}, promptLink(data, duel.a), " against ", promptLink(data, duel.b), `: ${whole(wins)} wins, ${whole(ties)} ties and ${whole(losses)} losses in `, isolated(metric.name), "."),
    duel.differences[metric.name] && element("p", {}, differenceText(duel.differences[metric.name], duel.confidence)),
    duel.pairs ? duelPicture(data, duel, j, width) : null,
    element("p", { class: "soft" }, cut + stored),
    ...duelList(data, duel, j, keep),
  ];
}

/** The examples with both scores, to search and to filter. A row opens with everything that is known of its example. */
function duelList(data, duel, j, keep) {
  const ids = data.names;
  const ahead = (row) => (row.errors ? null : row.ahead[j]);
  const gap = (row) => (row.errors ? null : row.ahead[j] ? row.a[j] - row.b[j] : 0);
  const score = (side) => ({ name: brief(ids[duel[side]], 30), kind: "number", value: (row) => row[side] && row[side][j], cell: (row) => (row.errors ? (row.errors[side === "a" ? 0 : 1] ? "failed" : "–") : number(row[side][j])) });
  const columns = [
    { name: "example", kind: "id", value: (row) => exampleName(data, row.example), cell: (row) => isolated(exampleName(data, row.example)) },
    score("a"), score("b"),
    { name: "difference", kind: "number", value: gap, cell: (row) => signed(gap(row)) },
    { name: "outcome", value: (row) => sortedBy(data, j, row), cell: (row) => (row.errors ? "failed" : ["loss", "tie", "win"][ahead(row) + 1]) },
  ];
  if (j === duel.metric && duel.rows.some((row) => row.false !== undefined)) {
    columns.push({ name: "P(false alarm)", kind: "number", value: (row) => (row.false === undefined ? null : row.false), cell: (row) => chance(row.false) });
  }
  const inputs = data.inputs || {};
  const texts = (row) => [exampleName(data, row.example), inputs[row.example], ...(row.answers || []), ...(row.errors || []), ...(row.judged || []).flatMap((each) => (each || []).flatMap((one) => one.reasons))];
  const shown = () => {
    const wanted = keep.search.toLocaleLowerCase();
    const kind = OUTCOMES.find(([key]) => key === keep.show);
    const rows = keep.show === "failed" ? duel.failed : duel.rows.filter((row) => kind[2](ahead(row)));
    return wanted ? rows.filter((row) => texts(row).some((text) => text && text.toLocaleLowerCase().includes(wanted))) : rows;
  };
  const list = table(columns, shown(), { keep: keep.table, sort: [4, 1], detail: (row) => exampleDetail(data, duel, row), label: "examples that both have seen" });
  const search = element("input", { type: "search", value: keep.search, autocomplete: "off", spellcheck: "false" });
  search.addEventListener("input", () => {
    keep.search = search.value;
    list.setRows(shown());
  });
  const options = OUTCOMES.map(([key, text]) => [key, text]);
  if (duel.failed.length) options.push(["failed", "failed evaluations"]);
  const which = choice("Show", options, keep.show, (value) => {
    keep.show = value;
    list.setRows(shown());
  });
  return [element("div", { class: "controls" }, labelled("Search inputs and responses", search), which), list];
}

/** A number that sorts rows from the worst loss to the best win. Differences by rounding are ties. */
function sortedBy(data, j, row) {
  return row.errors ? null : row.ahead[j] * Math.abs(row.a[j] - row.b[j]);
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
  const metric = data.goal.metrics[j], sign = signOf(metric);
  const rows = [...duel.rows].sort((p, q) => sortedBy(data, j, p) - sortedBy(data, j, q));
  const height = 200, margin = { left: 58, right: 14, top: 24, bottom: 40 };
  const values = rows.map((row) => (row.ahead[j] ? row.a[j] - row.b[j] : 0));
  const y = scale(values.reduce((a, b) => Math.min(a, b), 0), values.reduce((a, b) => Math.max(a, b), 0), height - margin.bottom, margin.top);
  const x = scale(0, rows.length, margin.left, width - margin.right, 0);
  const atExamples = Object.assign((n) => x(n - 0.5), { ticks: (n) => x.ticks(n).filter((tick) => Number.isInteger(tick) && tick >= 1) });
  const picture = frame(width, height, margin, atExamples, y, { x: width < 500 ? "examples, the worst first" : `common examples, the worst for ${quoted(data, duel.a, 40)} first`, y: `${quoted(data, duel.a, 24)} minus ${quoted(data, duel.b, 24)} in ${brief(metric.name, 30)}` });
  const step = (width - margin.left - margin.right) / rows.length;
  rows.forEach((row, i) => {
    const value = values[i], top = Math.min(y(value), y(0)), wide = Math.max(0.6, Math.min(step - (step > 4 ? 1 : 0), 40));
    const bar = shape("rect", { x: margin.left + (i + 0.5) * step - wide / 2, y: top, width: wide, height: Math.max(value ? 1 : 0, Math.abs(y(value) - y(0))) });
    bar.style.fill = row.ahead[j] < 0 ? "var(--bad)" : "var(--good)";
    if (rows.length <= 300) bar.append(shape("title", {}, `${exampleName(data, row.example)}: ${signed(value)}`));
    picture.append(bar);
  });
  picture.append(line(margin.left, y(0), width - margin.right, y(0), "var(--text)", 1.2));
  const makeTable = () => plainTable(["example", "difference"], rows.map((row, i) => [exampleName(data, row.example), signed(values[i])]), "differences");
  return figure(picture, `${metric.name}: differences on ${whole(rows.length)} examples, from ${signed(values[0])} to ${signed(values[values.length - 1])}`,
    `${sign > 0 ? "Above" : "Below"} the line, ${quoted(data, duel.a, 60)} is better.`, makeTable);
}

/** All that is known of an example: the whole input, and for both prompts the scores, the response and what judges said. */
function exampleDetail(data, duel, row) {
  const input = (data.inputs || {})[row.example];
  const side = (i) => {
    const arm = [duel.a, duel.b][i], scores = [row.a, row.b][i], error = row.errors && row.errors[i];
    const answer = row.answers && row.answers[i], judged = (row.judged && row.judged[i]) || [];
    return element("div", {},
      element("h3", {}, isolated(brief(data.names[arm], 60))),
      scores ? element("p", {}, data.goal.metrics.map((metric, j) => [j ? ", " : "", isolated(metric.name), ` ${number(scores[j])}`])) : null,
      error ? [element("p", {}, "The evaluation failed:"), textBox(error)] : answer ? textBox(answer) : element("p", { class: "soft" }, "The response was not stored."),
      judged.map((each) => judgedView(each)));
  };
  return element("div", {}, element("h3", {}, "Input"),
    input === undefined ? element("p", {}, isolated(data.example_names ? data.example_names[row.example] : exampleName(data, row.example))) : textBox(input),
    element("div", { class: "side" }, side(0), side(1)));
}

/** The grades and the reasons of a judge. */
function judgedView({ metric, grades, reasons }) {
  const given = Object.entries(grades).map(([name, grade], i) => [i ? ", " : "", isolated(name), ` ${number(grade)}`]);
  return [
    element("p", { class: "soft" }, isolated(metric), given.length ? [": ", given] : null),
    reasons.map((reason) => element("p", {}, isolated(reason))),
  ];
}

function textBox(text) {
  return element("pre", { class: "text", dir: "auto", tabindex: "0" }, text);
}
