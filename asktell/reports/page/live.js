// A page that is served asks for what is new, and draws it unless the reader is in the middle of something.

let secondsBetweenLooks = 2; // more where many look: the server says
const SECONDS_WHEN_DONE = 10; // where it may be extended

/** Whether drawing anew would take away what the reader holds: a control in use, an open table. */
function busy() {
  const main = document.querySelector("main");
  return main.contains(document.activeElement) || main.querySelector("details[open]") !== null || !getSelection().isCollapsed;
}

/** How it goes on, in a word. */
function stateOf(data) {
  return data.done ? "Done:" : data.paused ? "Paused:" : "Live:";
}

/** The document at an address: its text, or null if it is of this version. */
async function fetched(address, version = null) {
  const query = version === null ? "" : `?version=${encodeURIComponent(version)}`;
  const answer = await fetch(address + query, { cache: "no-store", credentials: "same-origin" });
  secondsBetweenLooks = Number(answer.headers.get("Asktell-Pace")) || secondsBetweenLooks;
  if (answer.status === 401) location.reload(); // the session is over: its page is where one begins
  if (answer.status === 204) return null;
  if (!answer.ok) throw new Error((await answer.json()).detail);
  return answer.text();
}

/**
 * Follow the state at an address. `first` is the document there is, `draw` takes another, `heard` each that comes, at once.
 * Returns what to show of it in the page's head.
 */
function follow(address, first, draw, heard) {
  const words = element("span", { class: "soft", "aria-live": "polite" });
  const button = element("button", { type: "button", hidden: true }, "Show the new state");
  const started = performance.now(), spentAtStart = first.spent;
  const { home } = document.documentElement.dataset;
  let newest = first, shown = first;

  function drawNewest() {
    shown = newest;
    button.hidden = true;
    draw(newest);
  }

  function tell(state) {
    const seconds = (performance.now() - started) / 1000, told = newest.spent - spentAtStart;
    const left = told > 0 && !newest.done ? ((newest.budget - newest.spent) * seconds) / told : null;
    const time = left === null ? "" : left < 90 ? `, about ${Math.round(left)} s to go` : `, about ${whole(Math.round(left / 60))} min to go`;
    const cost = newest.max_cost === null ? "" : `, ${number(newest.cost)} of ${number(newest.max_cost)} paid`;
    words.textContent = `${state} ${whole(newest.spent)} of ${whole(newest.budget)} evaluations, ${whole(newest.out)} out${cost}${time}`;
  }

  async function look() {
    try {
      const source = await fetched(address, newest.state);
      if (source !== null) heard((newest = prepared(JSON.parse(source))));
      if (newest !== shown) {
        if (busy()) button.hidden = false;
        else drawNewest();
      }
      tell(stateOf(newest));
    } catch {
      tell("Out of reach; so far:");
    }
    if (!newest.done || home) setTimeout(look, (newest.done ? Math.max(SECONDS_WHEN_DONE, secondsBetweenLooks) : secondsBetweenLooks) * 1000);
  }

  button.addEventListener("click", drawNewest);
  tell(stateOf(first));
  setTimeout(look, secondsBetweenLooks * 1000);
  return [words, button];
}
