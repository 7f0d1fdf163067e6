// A served page polls for new documents, and draws them unless that would disturb the reader.

const SECONDS_BETWEEN_LOOKS = 2;
const ANY_NUMBER = 1e8; // a budget this large stands for "any number of evaluations": only the cost is limited
const SECONDS_WHEN_DONE = 10; // a study that is done may be extended

/** True if drawing again would disturb the reader: a control has the focus, a table is open, or text is selected. */
function busy() {
  const main = document.querySelector("main");
  return main.contains(document.activeElement) || main.querySelector("figure details[open]") !== null || !getSelection().isCollapsed;
}

/** The state of the study in a word. */
function stateOf(data) {
  return data.done ? "Done:" : data.paused ? "Paused:" : "Live:";
}

/** The document at an address, as JSON. */
async function fetched(address) {
  const answer = await sent(address, { cache: "no-store", credentials: "same-origin" });
  if (answer.status === 401) location.reload(); // the browser asks for the token again
  if (!answer.ok) throw new Error((await answer.json()).detail);
  return answer.text();
}

/** The progress and what is left, from the last poll, which may be newer than the document. */
function progressOf(data) {
  const { live, done } = data;
  const { spent, budget, pending, spent_cost: cost, max_cost: most } = live || data;
  const evaluations = budget >= ANY_NUMBER ? `${whole(spent)} evaluations` : `${whole(spent)} of ${whole(budget)} evaluations`;
  const paid = most !== null ? `, ${money(data, cost)} of ${money(data, most)} paid` : cost ? `, ${money(data, cost)} paid` : "";
  if (done || !live) return `${evaluations}, ${whole(pending)} pending${paid}`;
  const { seconds, cost: still } = live.left, workers = live.workers.filter((worker) => worker.holds).length;
  const left = [
    seconds === null ? null : `about ${duration(seconds)}`,
    still === null ? null : `${most === null ? "about " : ""}${money(data, still)} to pay`,
  ].filter(Boolean);
  const by = workers ? ` with ${whole(workers)} ${workers === 1 ? "worker" : "workers"}` : "";
  return `${evaluations}, ${whole(pending)} pending${by}${paid}${left.length ? `. Left: ${left.join(", ")}` : ""}`;
}

/** The part of the run that is over, from 0 to 1: by the evaluations or by the money, whichever ends it first. */
function partOver(data) {
  if (data.done) return 1;
  const { spent, budget, spent_cost: cost, max_cost: most } = data.live || data;
  return Math.min(1, Math.max(budget >= ANY_NUMBER ? 0 : spent / budget, most ? cost / most : 0));
}

/** A bar for a part from 0 to 1. */
function progressBar(part, name) {
  return element("progress", { max: 1, value: part, "aria-label": name, title: percent(part) });
}

/** The leading prompt and its probability of being the best over the evaluations, since the server of the page looks. */
function coursePicture(data, width) {
  const course = ((data.live && data.live.course) || []).filter(([, arm]) => arm < data.names.length);
  if (course.length < 2) return null;
  const height = 150, margin = { left: 46, right: 14, top: 24, bottom: 40 };
  const x = scale(course[0][0], course[course.length - 1][0], margin.left, width - margin.right, 0.02), y = scale(0, 1, height - margin.bottom, margin.top, 0);
  const picture = frame(width, height, margin, x, y, { x: "evaluations", y: `${bestName(data)} of the leader` });
  const points = course.map(([spent, , p]) => [x(spent), y(p)]);
  const path = shape("polyline", { points: points.map((each) => each.join(",")).join(" "), fill: "none", "stroke-width": 2 });
  path.style.stroke = "var(--answer)";
  picture.append(path);
  const changes = course.map(([spent, arm, p], i) => ({ i, arm, x: x(spent), y: y(p) })).filter(({ i, arm }) => !i || course[i - 1][1] !== arm);
  for (const { arm, x: across, y: up } of changes) {
    const mark = markOf("answer", across, up);
    mark.append(shape("title", {}, data.names[arm]));
    picture.append(mark);
  }
  const names = changes.slice(-MOST_LABELS).reverse().map((each) => ({ ...each, text: data.names[each.arm], color: "var(--answer)", must: true }));
  placeLabels(picture, names, changes.map((each) => [each.x, each.y]), margin.left + 2, width - margin.right, height - margin.bottom);
  const makeTable = () => plainTable(["evaluations", "leader", bestName(data)], course.map(([spent, arm, p]) => [spent, data.names[arm], chance(p)]), "the leader over time");
  const [, last] = course[course.length - 1];
  return figure(picture, `The leader from ${whole(course[0][0])} to ${whole(course[course.length - 1][0])} evaluations, now ${quoted(data, last, 40)}`,
    "A diamond marks the evaluation at which another prompt takes the lead.", makeTable);
}

/**
 * Poll for documents at an address. `first` is the present document, `draw` draws a new one, and `fit` gets every new
 * one at once. Returns `nodes` for the page's header, and `said`, which shows that this page has paused or resumed the
 * study.
 */
function follow(address, first, draw, fit) {
  const words = element("span", { class: "soft", "aria-live": "polite" });
  const button = element("button", { type: "button", hidden: true }, "Show the new state");
  const bar = progressBar(partOver(first), "Progress of the run");
  const { home } = document.documentElement.dataset;
  let newest = first, shown = first;

  function drawNewest() {
    shown = newest;
    button.hidden = true;
    draw(newest);
  }

  function tell(state) {
    words.textContent = `${state} ${progressOf(newest)}`;
    bar.value = partOver(newest);
    bar.title = percent(bar.value);
  }

  async function look() {
    try {
      const source = await fetched(address), data = JSON.parse(source);
      if (data.state !== newest.state) fit((newest = prepared(source)));
      heardOfWorkers(newest, data.live);
      if (newest !== shown) {
        if (busy()) button.hidden = false;
        else drawNewest();
      }
      tell(stateOf(newest));
    } catch (error) {
      tell(`${error.message} Last state:`);
    }
    if (!newest.done || home) setTimeout(look, (newest.done ? SECONDS_WHEN_DONE : SECONDS_BETWEEN_LOOKS) * 1000);
  }

  button.addEventListener("click", drawNewest);
  tell(stateOf(first));
  setTimeout(look, SECONDS_BETWEEN_LOOKS * 1000);
  return { nodes: [bar, words, button], said: (paused) => tell(stateOf({ ...newest, paused })) };
}
