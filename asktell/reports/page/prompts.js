// All prompts: a table to sort and to search, their texts, and the differences between texts.

let openPrompt = () => {};

/** Open the row of a prompt, and the panel around it. */
function showPrompt(arm) {
  unfold("prompts");
  openPrompt(arm);
}

function drawPrompts(host, data) {
  const keep = kept("prompts", { search: "", which: "all", table: {} });
  const { prompts, goal } = data;
  const search = element("input", { type: "search", value: keep.search, autocomplete: "off", spellcheck: "false" });
  const shown = () => {
    const wanted = keep.search.toLocaleLowerCase();
    return data.order.filter((arm) => {
      if (keep.which === "answer" && !data.answerSet.has(arm) && !data.rivalSet.has(arm) && arm !== data.baseline) return false;
      if (keep.which === "active" && prompts.status[arm] !== "active") return false;
      return !wanted || data.names[arm].toLocaleLowerCase().includes(wanted) || prompts.texts[arm].toLocaleLowerCase().includes(wanted);
    });
  };
  const numeric = (cell) => (values) => ({ kind: "number", value: (arm) => values[arm], cell: (arm) => cell(values[arm]) });
  const drawn = {
    estimate: (_, j) => ({ name: goal.metrics[j].name, kind: "number", value: (arm) => prompts.estimates[arm][j], cell: (arm) => estimateCell(data, arm, j) }),
    number: numeric(number),
    probability: numeric(chance),
    count: numeric(whole),
    status: (values) => ({ kind: "wide", value: (arm) => values[arm], cell: (arm) => statusWords(data, arm) }),
    text: (values) => ({ kind: "wide", value: (arm) => values[arm], cell: (arm) => isolated(brief(values[arm], 60)) }),
  };
  const columns = [
    { name: "prompt", kind: "id", value: (arm) => data.names[arm], cell: (arm) => [isolated(brief(data.names[arm], 60)), " ", badgesOf(data, arm)] },
    ...prompts.columns.map((column, n) => ({ name: column.name, ...drawn[column.kind](prompts[column.array], n) })), // estimates are the first
    { name: "text", kind: "wide", value: (arm) => prompts.texts[arm], cell: (arm) => isolated(brief(prompts.texts[arm], 90)) },
  ];
  const list = table(columns, shown(), { keep: keep.table, detail: (arm) => promptDetail(data, arm), label: "prompts" });
  search.addEventListener("input", () => {
    keep.search = search.value;
    list.setRows(shown());
  });
  const which = choice("Show", [["all", "all prompts"], ["answer", "selected, may be better, baseline"], ["active", "active prompts"]], keep.which, (value) => {
    keep.which = value;
    list.setRows(shown());
  });
  host.append(element("p", { class: "say" }, data.words.prompts),
    element("div", { class: "controls" }, labelled("Search names and texts", search), which), list);

  openPrompt = (arm) => {
    keep.search = search.value = "";
    keep.which = "all";
    which.querySelector("select").value = "all";
    keep.table.sort = null;
    keep.table.open.add(arm);
    const others = data.order.filter((other) => other !== arm);
    list.setRows([arm, ...others]);
    host.querySelector("tbody button").focus({ preventScroll: true });
    host.scrollIntoView();
  };
}

/** An estimate, as a number and as a bar. */
function estimateCell(data, arm, j) {
  const { estimates, errors } = data.prompts, mean = estimates[arm][j], error = errors[arm][j];
  if (mean === null) return "–";
  const [low, high] = spanOfMetric(data, j);
  const x = scale(low, high, 2, 98, 0);
  const picture = shape("svg", { width: 100, height: 10, "aria-hidden": "true" });
  const color = kindOf(data, arm) === "answer" ? "var(--answer)" : "var(--other)";
  const bar = shape("rect", { x: 2, y: 3, width: Math.max(1, x(mean) - 2), height: 4, opacity: 0.7 });
  bar.style.fill = color;
  picture.append(bar);
  if (error) picture.append(line(...barOf(data.goal.metrics[j], mean, error).flatMap((end) => [x(end), 5]), "var(--text)", 1.5));
  return [estimate(mean, error), picture];
}

function spanOfMetric(data, j) {
  data.spans = data.spans || {};
  if (!data.spans[j]) {
    const arms = known(data, j), { estimates } = data.prompts;
    data.spans[j] = data.goal.metrics[j].range || spanOf(data.goal.metrics[j], [0, ...arms.map((arm) => estimates[arm][j])]); // bars begin at 0, because readers compare their lengths
  }
  return data.spans[j];
}

function statusWords(data, arm) {
  const { status, reason, failures, evaluations } = data.prompts;
  if (status[arm] === "rejected" && !evaluations[arm] && !failures[arm]) return ["not evaluated"];
  const words = [status[arm]];
  if (reason[arm]) words.push(": ", isolated(brief(reason[arm], 140)));
  if (failures[arm]) words.push(`, ${whole(failures[arm])} failed`);
  return words;
}

function promptDetail(data, arm) {
  const { prompts, goal } = data;
  const others = [];
  if (data.baseline !== null && data.baseline !== arm) others.push([String(data.baseline), `the baseline, ${quoted(data, data.baseline, 40)}`]);
  for (const other of data.answer.slice(0, 5)) if (other !== arm && other !== data.baseline) others.push([String(other), `the selected prompt, ${quoted(data, other, 40)}`]);
  const text = element("div", {}, element("pre", { class: "text", dir: "auto", tabindex: "0" }, textOf(data, arm)));
  const node = element("div", {}, element("h3", {}, isolated(data.names[arm])), text);
  if (others.length) {
    node.prepend(element("div", { class: "controls" }, choice("Text", [["none", "as it is"], ...others.map(([key, name]) => [key, `compared with ${name}`])], "none", (value) => {
      replaceContent(text, value === "none" ? element("pre", { class: "text", dir: "auto", tabindex: "0" }, textOf(data, arm)) : differenceView(prompts.texts[Number(value)], prompts.texts[arm]));
    })));
  }
  const estimates = goal.metrics.map((metric, j) => {
    const error = prompts.errors[arm][j];
    return error === null || error === undefined ? null : [element("dt", {}, isolated(metric.name)), element("dd", {}, estimate(prompts.estimates[arm][j], error))];
  });
  const reason = prompts.reason[arm] ? [element("dt", {}, prompts.status[arm]), element("dd", {}, isolated(prompts.reason[arm]))] : null;
  node.append(element("dl", {}, estimates, reason));
  return node;
}
