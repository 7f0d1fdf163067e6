// The workers of a running study: their trials, their leases and their speed.

/** A duration in words. */
function duration(seconds) {
  const size = Math.abs(seconds);
  if (size < 90) return `${Math.round(size)} s`;
  if (size < 5400) return `${Math.round(size / 60)} min`;
  return size < 172800 ? `${number(Math.round(size / 360) / 10)} h` : `${whole(Math.round(size / 86400))} days`;
}

/** Take new data about workers. They are drawn unless that would disturb the reader. */
function heardOfWorkers(data, live) {
  data.live = { ...live, heard: performance.now() };
  const host = document.getElementById("workers");
  if (host && !host.contains(document.activeElement) && !host.contains(getSelection().anchorNode)) replaceContent(host, workersView(data));
}

function workersView(data) {
  const { live } = data;
  const now = live.now + (live.heard ? (performance.now() - live.heard) / 1000 : 0);
  const at = live.workers.filter((worker) => worker.holds);
  const said = at.length
    ? `${whole(at.length)} ${at.length === 1 ? "worker holds" : "workers hold"} ${whole(at.reduce((n, worker) => n + worker.holds, 0))} trials.`
    : data.done ? "The selection has ended." : data.paused ? "The selection is paused. No trials are assigned." : "No worker holds trials now.";
  const late = at.filter((worker) => worker.until < now).length;
  const lost = late ? ` The ${late === 1 ? "lease of 1" : `leases of ${whole(late)}`} expired. The next worker that asks takes over.` : "";
  const pace = live.pace === null ? "" : ` Total speed: ${number(live.pace)} evaluations per minute.`;
  const ago = (time) => (time === null ? "unknown" : `${duration(now - time)} ago`);
  const columns = [
    { name: "worker", kind: "id", value: (row) => row.name, cell: (row) => isolated(brief(row.name, 80)) },
    { name: "trials", kind: "wide", value: (row) => row.holds, cell: (row) => heldBy(data, row) },
    { name: "since", kind: "time", value: (row) => oldest(row), cell: (row) => (row.holds ? ago(oldest(row)) : "–") },
    { name: "lease ends", kind: "time", value: (row) => row.until, cell: (row) => (row.until === null ? "–" : row.until < now ? `expired ${duration(now - row.until)} ago` : `in ${duration(row.until - now)}`) },
    { name: "last seen", kind: "time", value: (row) => row.seen, cell: (row) => ago(row.seen) },
    { name: "evaluations", kind: "number", value: (row) => row.told, cell: (row) => whole(row.told) },
    { name: "per minute", kind: "number", value: (row) => row.pace, cell: (row) => number(row.pace) },
  ];
  return [
    element("p", { class: "say" }, said + lost + pace),
    live.workers.length ? table(columns, live.workers, { keep: kept("workers", { table: {} }).table, label: "workers" }) : null,
  ];
}

/** The time since which a worker has held its oldest trial, null if it was held before this page began to look. */
function oldest(worker) {
  return worker.trials.reduce((time, [, , , since]) => (since === null || time === null ? null : Math.min(time, since)), Infinity);
}

function heldBy(data, worker) {
  const shown = worker.trials.slice(0, 3).map(([arm, example, attempt], i) => [
    i ? "; " : "", arm < data.prompts.ids.length ? promptLink(data, arm) : `prompt ${whole(arm)}`,
    example === null ? "" : [" on ", isolated(exampleName(data, example))], attempt > 1 ? ` (attempt ${whole(attempt)})` : "",
  ]);
  return worker.holds ? [shown, worker.holds > 3 ? ` and ${whole(worker.holds - 3)} more` : ""] : "none";
}
