// A heat map of prompts × examples, and the examples that discriminate between prompts or look wrong.

function drawExamples(host, data) {
  host.append(element("p", { class: "say" }, data.words.examples));
  const heat = data.heat_map;
  if (!heat) return;
  const keep = kept("examples", { metric: String(data.goal.objectives[0]), table: {}, which: "divide" });
  const body = element("div");
  const draw = () => replaceContent(body, heatPicture(data, heat, Number(keep.metric), Math.max(280, host.clientWidth)));
  if (data.goal.metrics.length > 1) {
    host.append(element("div", { class: "controls" }, choice("Metric", data.goal.metrics.map((metric, j) => [String(j), brief(metric.name, 40)]), keep.metric, (value) => {
      keep.metric = value;
      draw();
    })));
  }
  host.append(body);
  draw();
  if (data.telling && data.telling.rows.length) host.append(...tellingExamples(data, data.telling, keep));
}

function heatPicture(data, heat, j, width) {
  const picture = heat.pictures[j], metric = data.goal.metrics[j];
  const rows = heat.row_starts.length, columns = heat.column_starts.length, levels = bytesOf(picture.bytes);
  const wide = Math.min(width - 2, Math.max(columns, Math.min(width - 2, columns * 24)));
  const height = Math.max(30, Math.min(400, rows * (rows > 40 ? Math.max(1, Math.floor(400 / rows)) : 14)));
  const canvas = cellPicture(levels, rows, columns, wide, height, SCORES);
  const readout = element("div", { class: "readout", "aria-live": "polite" }, "Point at a cell, or move with the arrow keys.");
  followCells(canvas, rows, columns, (row, column) => {
    const level = levels[row * columns + column];
    const value = level ? number(picture.low + ((level - 1) / 254) * (picture.high - picture.low)) : "not evaluated";
    replaceContent(readout, isolated(rowName(data, { row_starts: heat.row_starts, rows: heat.rows }, row)), " on ", isolated(columnName(data, heat, column)), `: ${heat.binned && level ? "about " : ""}${value}`);
  });
  const binned = heat.binned ? ` Neighboring prompts or examples are averaged to fit the screen: ${whole(rows)} × ${whole(columns)} cells for ${whole(heat.rows.length)} × ${whole(heat.columns.length)} pairs.` : "";
  const caption = `Rows are prompts, the best first. Columns are the ${whole(heat.columns.length)} evaluated examples, the hardest first. Blank cells were not evaluated.${binned}`;
  const made = figure(canvas, `${metric.name} of ${whole(heat.rows.length)} prompts on ${whole(heat.columns.length)} examples`, caption, () => heatTable(data, heat, picture, levels));
  made.insertBefore(readout, made.querySelector("figcaption"));
  made.prepend(heatLegend(picture, metric));
  return made;
}

function columnName(data, heat, column) {
  const from = heat.column_starts[column], to = column + 1 < heat.column_starts.length ? heat.column_starts[column + 1] : heat.columns.length;
  const first = exampleName(data, heat.columns[from]);
  return to - from === 1 ? first : `${first} and ${whole(to - from - 1)} next to it`;
}

function exampleName(data, example) {
  const names = data.example_names;
  return names ? brief(names[example], 60) : `example ${example}`;
}

function heatLegend(picture, metric) {
  const bar = element("canvas", { width: 254, height: 1, "aria-hidden": "true" }), context = bar.getContext("2d"), image = context.createImageData(254, 1);
  palette(SCORES).slice(1, 255).forEach(([red, green, blue], i) => image.data.set([red, green, blue, 255], 4 * i));
  context.putImageData(image, 0, 0);
  bar.style.width = "160px";
  bar.style.height = "12px";
  bar.style.display = "inline-block";
  const words = directionOf(metric);
  return element("div", { class: "key" }, element("span", {}, isolated(metric.name), " ", number(picture.low), bar, number(picture.high)), words ? element("span", {}, words) : null);
}

/** The heat map as numbers: for each prompt, the number of evaluated cells with their mean, lowest and highest score. */
function heatTable(data, heat, picture, levels) {
  const columns = heat.column_starts.length;
  const rows = heat.row_starts.map((_, row) => {
    const seen = [...levels.subarray(row * columns, (row + 1) * columns)].filter((level) => level);
    const values = seen.map((level) => picture.low + ((level - 1) / 254) * (picture.high - picture.low));
    const mean = values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
    return [rowName(data, { row_starts: heat.row_starts, rows: heat.rows }, row), values.length, number(mean), values.length ? number(values.reduce((a, b) => Math.min(a, b))) : "–", values.length ? number(values.reduce((a, b) => Math.max(a, b))) : "–"];
  });
  return plainTable(["prompt", "cells evaluated", "mean", "lowest", "highest"], rows, "scores per prompt");
}

function tellingExamples(data, telling, keep) {
  const columns = [
    { name: "example", kind: "id", value: (row) => row.example, cell: (row) => isolated(exampleName(data, row.example)) },
    { name: "spread of scores", kind: "number", value: (row) => row.spread, cell: (row) => number(row.spread) },
    { name: "discrimination", kind: "number", value: (row) => row.discrimination, cell: (row) => (row.discrimination === null ? "–" : `${number(row.discrimination)} ± ${number(row.error)}`) },
    { name: "difficulty", kind: "number", value: (row) => row.difficulty, cell: (row) => number(row.difficulty) },
    { name: `mean ${telling.metric}`, kind: "number", value: (row) => row.mean, cell: (row) => number(row.mean) },
    { name: "prompts evaluated", kind: "number", value: (row) => row.prompts, cell: (row) => whole(row.prompts) },
    ...(telling.earlier ? [{ name: "informativeness", kind: "number", value: (row) => row.earlier, cell: (row) => number(row.earlier) }] : []),
    { name: "", cell: (row) => exampleBadges(data, row) },
  ];
  const kinds = {
    divide: ["discriminating examples", () => true],
    mislabeled: ["examples that may be mislabeled", (row) => row.mislabeled],
    duplicates: ["near duplicates", (row) => row.duplicates.length],
    failed: ["examples on which all prompts fail", (row) => row.failed],
  };
  const shown = () => telling.rows.filter(kinds[keep.which][1]);
  const list = table(columns, shown(), { keep: keep.table, sort: [1, -1], label: "examples" });
  const controls = element("div", { class: "controls" }, choice("Show", Object.entries(kinds).map(([key, [text]]) => [key, text]), keep.which, (value) => {
    keep.which = value;
    list.setRows(shown());
  }));
  const same = telling.same ? ` On ${whole(telling.same)} of ${whole(telling.judged)} examples all prompts score the same, so these examples cannot help rank them.` : "";
  const earlier = telling.earlier ? ` Informativeness is estimated from ${whole(telling.earlier.studies)} earlier ${telling.earlier.studies === 1 ? "study" : "studies"}, and is 1 for examples that they do not have.` : "";
  return [
    element("h3", {}, "Discriminating examples"),
    element("p", { class: "soft" }, `The spread is the standard deviation of the prompts' scores on the example. Discrimination is the correlation of these scores with the prompts' quality on all other examples. It is above 0 if better prompts score better. If they score worse, the example may be mislabeled (at a false discovery rate of 10%). Difficulty is how much worse the prompts score on it than on the average example.${same}${earlier}`),
    controls, list,
  ];
}

function exampleBadges(data, row) {
  const badges = [];
  if (row.mislabeled) badges.push(["bad", "mislabeled?"]);
  if (row.failed) badges.push(["bad", "all prompts fail"]);
  if (row.duplicates.length) badges.push(["other", `like ${row.duplicates.slice(0, 2).map((example) => exampleName(data, example)).join(", ")}${row.duplicates.length > 2 ? ", ..." : ""}`]);
  return badges.map(([kind, text]) => [element("span", { class: `badge ${kind}` }, isolated(text)), " "]);
}
