// The settings and versions of the selection, and a button that downloads the document.

function drawMade(host, data) {
  const { made } = data;
  const rows = [
    ["goal", data.goal.text], ["method", settingsText(made.method)], ["seed", made.seed], ["examples", data.examples === null ? "drawn by the evaluator" : whole(data.examples)],
    ["order of examples", made.sampling], ["failed evaluations", failureText(made)], ["features", made.features ? made.features.join(" × ") : "none"],
    ["budget", data.spending], ["digest of the prompts", made.digests.prompts], ["digest of the scores", made.digests.scores],
    ...Object.entries(made.versions).map(([name, version]) => [name, version]), ["written", made.at], ...flattened(made.about),
  ];
  host.append(
    element("p", { class: "say" }, data.words.made),
    element("dl", {}, rows.map(([name, value]) => [element("dt", {}, isolated(name)), element("dd", {}, isolated(value))])),
    element("p", {}, element("button", { type: "button", onclick: () => download(data) }, "Download the data as JSON")),
  );
}

function failureText(made) {
  if (made.on_failure !== "skip") return `scored as ${Object.entries(made.on_failure).map(([name, score]) => `${name} ${number(score)}`).join(", ")}`;
  return made.max_failure_rate < 1 ? `no scores, and a prompt is eliminated if more than ${percent(made.max_failure_rate)} of its evaluations fail` : "no scores";
}

function settingsText(part) {
  const values = Object.entries(part).filter(([name, value]) => name !== "type" && value !== null).map(([name, value]) => `${name} ${value !== null && typeof value === "object" ? settingsText(value) : value}`);
  return values.length ? `${part.type} (${values.join(", ")})` : part.type;
}

function flattened(about, prefix = "") {
  return Object.entries(about).flatMap(([name, value]) => (value !== null && typeof value === "object" && !Array.isArray(value)
    ? flattened(value, `${prefix}${name} `)
    : [[prefix + name, brief(typeof value === "string" ? value : JSON.stringify(value), 500)]]));
}

function download(data) {
  const address = URL.createObjectURL(new Blob([data.source], { type: "application/json" }));
  const name = (data.name || "selection").replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80);
  const link = element("a", { href: address, download: `${name}.json`, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
