// How far each proxy, such as a judge, agrees with the goal's own scores, such as people's.

const MOST_CORRECTED = 30; // prompts

function drawJudge(host, data) {
  for (const judge of data.judges || []) {
    host.append(element("p", { class: "say" }, isolated(judge.sentence)));
    if (judge.points.length) host.append(agreementPicture(judge));
    if (judge.segments.length) host.append(element("h3", {}, "By segment"), element("div", { class: "scroll" }, biasBySegment(judge)));
    if (judge.prompts.length) {
      host.append(element("h3", {}, `Means of ${judge.metric}`), element("div", { class: "scroll" }, correctedMeans(data, judge)),
        element("p", { class: "soft" }, "The estimates use the scores of the proxy on all examples. ± is one standard error."));
    }
  }
}

function correctedMeans(data, judge) {
  const columns = [
    { name: "prompt", kind: "id", value: (row) => data.names[row.arm], cell: (row) => promptLink(data, row.arm) },
    { name: `${judge.proxy} alone`, kind: "number", value: (row) => row.judge_alone, cell: (row) => number(row.judge_alone) },
    { name: "estimate", kind: "number", value: (row) => row.mean, cell: (row) => row.mean === null ? "" : estimate(row.mean, row.error) },
    { name: "labels", kind: "number", value: (row) => row.labeled, cell: (row) => `${whole(row.labeled)} of ${whole(row.judged)}` },
  ];
  const best = [...judge.prompts].sort((a, b) => b.mean - a.mean).slice(0, MOST_CORRECTED);
  return table(columns, best, { label: `means of ${judge.metric} and of ${judge.proxy}` });
}

/** The two scores of each common cell. A larger circle stands for more cells. */
function agreementPicture(judge) {
  const width = Math.min(480, document.body.clientWidth - 40), height = 320;
  const margin = { left: 58, right: 14, top: 24, bottom: 44 };
  const along = (i, from, to) => {
    const values = judge.points.map((point) => point[i]);
    return scale(Math.min(...values), Math.max(...values), from, to, 0.08);
  };
  const x = along(0, margin.left, width - margin.right), y = along(1, height - margin.bottom, margin.top);
  const picture = frame(width, height, margin, x, y, { x: judge.proxy, y: judge.metric });
  const most = Math.max(...judge.points.map((point) => point[2]));
  for (const [score, own, cells] of judge.points) {
    const circle = shape("circle", { cx: x(score), cy: y(own), r: 3 + 9 * Math.sqrt((cells - 1) / Math.max(1, most - 1)), opacity: 0.6 });
    circle.style.fill = COLORS.answer;
    circle.append(shape("title", {}, `${judge.proxy} ${number(score)}, ${judge.metric} ${number(own)}: ${whole(cells)} ${cells === 1 ? "response" : "responses"}`));
    picture.append(circle);
  }
  const rows = () => plainTable([judge.proxy, judge.metric, "responses"], judge.points.map(([score, own, cells]) => [number(score), number(own), whole(cells)]), "agreement");
  return figure(picture, `${judge.metric} by ${judge.proxy} on ${whole(judge.cells)} responses`, "Responses with both scores. A larger circle stands for more responses.", rows);
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
