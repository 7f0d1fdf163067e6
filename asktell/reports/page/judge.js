// How far each proxy, such as a judge, agrees with the goal's own scores, such as people's.

const MOST_CORRECTED = 30; // prompts

function drawJudge(host, data) {
  for (const judge of data.judges || []) {
    host.append(element("p", { class: "say" }, isolated(judge.sentence)));
    if (judge.segments.length) host.append(element("h3", {}, "By segment"), element("div", { class: "scroll" }, biasBySegment(judge)));
    if (judge.prompts.length) {
      host.append(element("h3", {}, `Means of ${judge.metric}, corrected`), element("div", { class: "scroll" }, correctedMeans(data, judge)),
        element("p", { class: "soft" }, `Over all examples with a score of ${judge.proxy}. ± is one standard error.`));
    }
  }
}

function correctedMeans(data, judge) {
  const columns = [
    { name: "prompt", kind: "id", value: (row) => data.names[row.arm], cell: (row) => promptLink(data, row.arm) },
    { name: `${judge.proxy} alone`, kind: "number", value: (row) => row.judge_alone, cell: (row) => number(row.judge_alone) },
    { name: "corrected", kind: "number", value: (row) => row.mean, cell: (row) => estimate(Number(row.mean.toPrecision(4)), row.error) },
    { name: "labels", kind: "number", value: (row) => row.labeled, cell: (row) => `${whole(row.labeled)} of ${whole(row.judged)}` },
  ];
  const best = [...judge.prompts].sort((a, b) => b.mean - a.mean).slice(0, MOST_CORRECTED);
  return table(columns, best, { label: `corrected means by ${judge.proxy}` });
}

function biasBySegment(judge) {
  const columns = [
    { name: "segment", kind: "id", value: (row) => row.segment, cell: (row) => isolated(row.segment) },
    { name: `bias of ${judge.proxy}`, kind: "number", value: (row) => row.bias, cell: (row) => `${signed(Number(row.bias.toPrecision(2)))} ± ${Number(row.error.toPrecision(2))}` },
    { name: "labels", kind: "number", value: (row) => row.cells, cell: (row) => whole(row.cells) },
    { name: "", kind: "wide", value: (row) => row.differs, cell: (row) => row.differs && element("span", { class: "badge bad" }, "unlike the rest") },
  ];
  return table(columns, judge.segments, { label: `bias of ${judge.proxy} by segment` });
}
