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

/**
 * Poll for documents at an address. `first` is the present document, `draw` draws a new one, and `fit` gets every new
 * one at once. Returns `nodes` for the page's header, and `said`, which shows that this page has paused or resumed the
 * study.
 */
function follow(address, first, draw, fit) {
  const words = element("span", { class: "soft", "aria-live": "polite" });
  const button = element("button", { type: "button", hidden: true }, "Show the new state");
  const { home } = document.documentElement.dataset;
  let newest = first, shown = first;

  function drawNewest() {
    shown = newest;
    button.hidden = true;
    draw(newest);
  }

  function tell(state) {
    words.textContent = `${state} ${progressOf(newest)}`;
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
  return { nodes: [words, button], said: (paused) => tell(stateOf({ ...newest, paused })) };
}
