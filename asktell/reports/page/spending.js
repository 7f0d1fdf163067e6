// The evaluations that each prompt received over time, and the prompts that were eliminated.

function drawSpending(host, data) {
  const spent = data.spending_by_prompt;
  host.append(element("p", { class: "say" }, data.words.spending));
  if (spent.evaluations) host.append(spendingPicture(data, spent, Math.max(280, host.clientWidth)));
  host.append(element("h3", {}, "Eliminated, failed and retired prompts"), decisionLog(data, spent));
}

function spendingPicture(data, spent, width) {
  const rows = spent.row_starts.length, margin = 30, wide = width - 2;
  const height = Math.max(40, Math.min(400, rows * (rows > 60 ? 2 : 14)));
  const canvas = cellPicture(bytesOf(spent.bytes), rows, spent.steps, wide, height, COUNTS);
  const marks = shape("svg", { width: wide, height: margin, "aria-hidden": "true" });
  const x = (n) => (n / spent.evaluations) * wide;
  for (const decision of spent.decisions) {
    const at = Math.min(wide - 1, Math.max(1, x(decision.after)));
    marks.append(line(at, 16, at, margin, decision.left.length ? "var(--bad)" : "var(--other)", decision.left.length ? 2.5 : 1));
  }
  marks.append(shape("text", { class: "soft", x: 0, y: 12 }, "first evaluation"), shape("text", { class: "soft", x: wide, y: 12, "text-anchor": "end" }, `evaluation ${whole(spent.evaluations)}`));
  const levels = bytesOf(spent.bytes);
  const readout = element("div", { class: "readout", "aria-live": "polite" }, "Point at the chart, or move with the arrow keys.");
  followCells(canvas, rows, spent.steps, (row, column) => {
    const n = Math.round((levels[row * spent.steps + column] * spent.most) / 255);
    const from = Math.floor((column * spent.evaluations) / spent.steps) + 1;
    replaceContent(readout, isolated(rowName(data, spent, row)), `: ${n === 1 ? "1 evaluation" : `${whole(n)} evaluations`} from evaluation ${whole(from)} on`);
  });
  const caption = `Each row is ${rows < spent.rows.length ? "several neighboring prompts" : "a prompt"}, the best first. Time runs to the right. The stronger the color, the more evaluations ` +
    `(${whole(spent.most)} at most). Ticks above the chart mark decisions. A thick tick means that prompts were eliminated.`;
  const { evaluations } = data.prompts, ids = data.names;
  const makeTable = () => plainTable(["prompt", "evaluations"], data.order.map((arm) => [ids[arm], evaluations[arm]]), "evaluations per prompt");
  const made = figure(canvas, `Evaluations of ${whole(spent.rows.length)} prompts over ${whole(spent.evaluations)} evaluations`, caption, makeTable);
  made.prepend(marks);
  made.insertBefore(readout, made.querySelector("figcaption"));
  return made;
}

function rowName(data, spent, row) {
  const from = spent.row_starts[row], to = row + 1 < spent.row_starts.length ? spent.row_starts[row + 1] : spent.rows.length;
  const first = brief(data.names[spent.rows[from]], 60);
  return to - from === 1 ? first : `${first} and ${whole(to - from - 1)} next to it`;
}

function decisionLog(data, spent) {
  const rows = spent.decisions.flatMap((decision) => decision.left.map((left) => ({ ...left, after: decision.after, round: decision.round })));
  rows.push(...spent.left_otherwise.map((left) => ({ ...left, after: null }))); // failed or retired, without a decision
  const others = spent.decisions.reduce((sum, each) => sum + each.skipped, 0) + spent.decisions.filter((each) => !each.left.length).length;
  const last = spent.decisions[spent.decisions.length - 1];
  const words = [];
  if (!spent.decisions.length) words.push("No decision has been made yet.");
  if (others) words.push(`${whole(others)} ${others === 1 ? "decision" : "decisions"} only planned evaluations.`);
  if (last && last.finished) words.push(last.settled ? "The last decision ended the selection at the requested confidence." : "The last decision ended the selection.");
  const columns = [
    { name: "after evaluation", kind: "number", value: (row) => row.after, cell: (row) => (row.after === null ? "–" : whole(row.after)) },
    { name: "decision", kind: "number", value: (row) => row.round, cell: (row) => row.round },
    { name: "prompt", kind: "id", value: (row) => data.names[row.prompt], cell: (row) => promptLink(data, row.prompt) },
    { name: "status", value: (row) => row.status, cell: (row) => row.status },
    { name: "reason", kind: "wide", value: (row) => row.reason, cell: (row) => isolated(brief(row.reason, 300)) },
  ];
  const list = rows.length ? table(columns, rows, { keep: kept("log", { table: {} }).table, sort: [1, 1], label: "decisions" }) : element("p", { class: "soft" }, "No prompt has been eliminated, failed or retired.");
  return element("div", {}, element("p", {}, words.join(" ")), list);
}
