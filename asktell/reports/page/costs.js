// Cost, tokens and seconds per prompt, failures by reason and, on a served page, the workers.

function drawCosts(host, data) {
  host.append(element("p", { class: "say" }, data.words.costs));
  if (data.quantities.length) host.append(quantitiesTable(data));
  else host.append(element("p", { class: "soft" }, "No costs or times were recorded with the scores."));
  if (data.failures.length) host.append(element("h3", {}, "Failures"), failuresTable(data));
  if (data.live) host.append(element("h3", {}, "Workers and leases"), element("div", { id: "workers" }, workersView(data)));
}

function quantitiesTable(data) {
  const { evaluations } = data.prompts, ids = data.names;
  const keep = kept("costs", { table: {} });
  const columns = [{ name: "prompt", kind: "id", value: (arm) => ids[arm], cell: (arm) => [promptLink(data, arm), " ", badgesOf(data, arm)] }];
  for (const quantity of data.quantities) {
    const most = quantity.means.reduce((a, b) => Math.max(a, b || 0), 0), isMoney = quantity.name === "cost", j = data.moneyMetric;
    if (isMoney && j !== undefined) {
      columns.push({ name: data.goal.metrics[j].name, kind: "number", value: (arm) => data.prompts.estimates[arm][j], cell: (arm) => estimateCell(data, arm, j) });
      continue;
    }
    columns.push({
      name: `${quantity.name} per ${isMoney ? evaluationsOf(data) : "evaluation"}`, kind: "number", value: (arm) => quantity.means[arm],
      cell: (arm) => [isMoney && quantity.means[arm] !== null ? money(data, quantity.means[arm] * data.money_per) : number(quantity.means[arm]), most > 0 && quantity.means[arm] !== null ? smallBar(quantity.means[arm] / most) : null],
    });
  }
  columns.push({ name: "evaluations", kind: "number", value: (arm) => evaluations[arm], cell: (arm) => whole(evaluations[arm]) });
  const totals = data.quantities.map((each) => [element("dt", {}, isolated(each.name)), element("dd", {}, totalOf(data, each))]);
  return element("div", {}, element("dl", {}, totals), table(columns, data.order, { keep: keep.table, label: "cost per prompt" }));
}

function totalOf(data, { name, mean, total, of }) {
  if (name !== "cost") return `${number(mean)} on average, ${number(total)} in total, from ${whole(of)} evaluations`;
  return `${money(data, mean * data.money_per)} per ${evaluationsOf(data)} on average, ${money(data, total)} in total, from ${whole(of)} evaluations`;
}

function smallBar(part) {
  const picture = shape("svg", { width: 100, height: 8, "aria-hidden": "true" });
  const bar = shape("rect", { x: 0, y: 1, width: Math.max(1, 100 * Math.max(0, part)), height: 5, opacity: 0.7 });
  bar.style.fill = "var(--other)";
  picture.append(bar);
  return picture;
}

function failuresTable(data) {
  const columns = [
    { name: "times", kind: "number", value: (group) => group.count, cell: (group) => whole(group.count) },
    { name: "reason", kind: "wide", value: (group) => group.reason, cell: (group) => isolated(brief(group.reason, 300)) },
    { name: "prompts", kind: "wide", value: (group) => group.n_prompts, cell: (group) => [group.prompts.slice(0, 5).map(([arm], i) => [i ? ", " : "", promptLink(data, arm)]), group.n_prompts > 5 ? ` and ${whole(group.n_prompts - 5)} more` : ""] },
    { name: "examples", kind: "wide", cell: (group) => group.examples.slice(0, 8).map((each) => exampleName(data, each)).join(", ") },
  ];
  return table(columns, data.failures, { sort: [0, -1], keep: kept("failures", { table: {} }).table, label: "failures" });
}
