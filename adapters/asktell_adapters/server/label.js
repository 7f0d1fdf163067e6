// The page on which people label responses, one item at a time, by keyboard or by pointer.

const SECONDS_BETWEEN_LOOKS = 3;
const MOST_LOOKS = 200; // without an item, before the page stops looking by itself
const SIDES = ["A", "B"];
const STATES = {
  wait: "Other raters hold the remaining items, or the next item is being prepared. This page checks again automatically.",
  last: "That was the last item. Thank you. For a few seconds, you can still undo your last label.",
  done: "All items are labeled. Thank you.",
  paused: "The study is paused. This page checks again automatically.",
  failed: "The responses cannot be made at the moment. The log of the service has the reason.",
};

const task = JSON.parse(document.getElementById("data").textContent);
const here = location.pathname.replace(/\/$/, "");
const choices = task.labels;
let rater = "", current = null, busy = false, looks = 0, since = 0, timer = null;

const progress = element("span", { class: "soft" });
const said = element("p", { role: "alert" });
const content = element("div", { id: "item", tabindex: "-1" });
const asked = element("div", { class: "asked" });

function begin() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
  theme();
  dark.addEventListener("change", theme);
  document.getElementById("page").append(
    element("header", {}, element("span", { class: "name" }, "asktell"), progress),
    element("main", { class: "labeling" }, said, content, asked));
  document.addEventListener("keydown", onKey);
  const name = sessionStorage.getItem("rater");
  if (name) enter(name);
  else drawDoor();
}

/** The first screen, which asks for a name. */
function drawDoor() {
  const name = element("input", { autocomplete: "name", maxlength: 60, required: true, value: localStorage.getItem("rater") || "" });
  const form = element("form", { class: "tile door", onsubmit: (event) => { event.preventDefault(); enter(name.value); } },
    element("h1", {}, isolated(task.question)),
    element("p", {}, task.comparison
      ? "You will see an input and two responses, A and B, in random order. Choose the better one."
      : "You will see an input and a response. Choose the label that fits."),
    labelled("Your name ", name),
    element("p", {}, element("button", {}, "Start")),
    element("p", { class: "soft" }, "Give the same name when you come back. You can use the keyboard for everything."));
  replaceContent(content, form);
  replaceContent(asked);
  name.focus();
}

function enter(name) {
  rater = name.trim();
  if (!rater) return;
  send("next", {});
}

/** Send a request and draw its answer. A request that got no answer is repeated: none of them counts twice. */
async function send(what, body) {
  if (busy) return;
  busy = true;
  clearTimeout(timer);
  content.setAttribute("aria-busy", "true");
  for (;;) {
    try {
      const answer = await fetch(`${here}/${what}`, {
        method: "POST", cache: "no-store", credentials: "same-origin",
        headers: { "Content-Type": "application/json" }, body: JSON.stringify({ rater, ...body }),
      });
      if (answer.status === 401) return location.reload(); // the browser asks for the token again
      const found = await answer.json();
      if (answer.status >= 500) throw new Error(found.title);
      if (!answer.ok) {
        said.textContent = found.detail;
        if (current === null) drawDoor();
        break;
      }
      draw(found);
      break;
    } catch {
      said.textContent = "The service is unreachable. All labels that you gave before are saved. Trying again …";
      await new Promise((next) => setTimeout(next, 1000));
    }
  }
  busy = false;
  content.removeAttribute("aria-busy");
}

function draw(found) {
  if (current === null) {
    sessionStorage.setItem("rater", rater);
    localStorage.setItem("rater", rater);
  }
  const isNew = current === null || found.item !== current.item || found.state !== "item";
  current = found;
  said.textContent = found.said;
  progress.textContent = `${rater}: ${whole(found.given)} ${found.given === 1 ? "label" : "labels"} given` +
    (found.state === "done" ? "" : `, ${whole(found.left)} to go for all raters`);
  if (found.state === "item") drawItem();
  else drawEnd();
  if (isNew) {
    since = performance.now();
    content.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function drawItem() {
  looks = 0;
  const responses = current.responses.map((text, i) => part(task.comparison ? `Response ${SIDES[i]}` : "Response", text));
  replaceContent(content, part("Input", current.input), element("div", { class: "side" }, responses));
  replaceContent(asked,
    element("h1", {}, isolated(task.question)),
    element("div", { class: "controls labels", role: "group", "aria-label": "labels" }, choices.map((label, i) =>
      element("button", { onclick: () => give(i), "aria-keyshortcuts": i < 9 ? i + 1 : null }, i < 9 && element("kbd", {}, i + 1), isolated(label)))),
    others(element("button", { onclick: skip, "aria-keyshortcuts": "s" }, element("kbd", {}, "s"), "Skip")));
}

function drawEnd() {
  // At the end, a label can be undone for a while before it is recorded
  const state = current.state === "wait" && current.left === 0 && current.undo ? "last" : current.state;
  const isOver = state === "last" || state === "done";
  const words = state === "skipped"
    ? `Only items that you skipped are left (${whole(current.skipped)}).` : STATES[state];
  const next = isOver && element("p", {},
    "All labels are saved, so you can close this page. ",
    state === "done" && "Whoever asked you for the labels can see the result now. ", "New items, if there are any, appear here.");
  const again = current.skipped > 0 && current.state !== "done" &&
    element("button", { onclick: () => send("again", {}), "aria-keyshortcuts": "r" }, element("kbd", {}, "r"), "See the skipped items again");
  replaceContent(content, element("div", { class: "tile" }, element("p", { class: "say" }, words), next));
  replaceContent(asked, state === "done" && !current.undo ? null : others(again));
  looks += 1;
  if (looks < MOST_LOOKS) timer = setTimeout(() => send("next", {}), SECONDS_BETWEEN_LOOKS * 1000);
}

/** The controls that are no labels. */
function others(...buttons) {
  return element("div", { class: "controls" }, buttons,
    element("button", { onclick: undo, disabled: !current.undo, "aria-keyshortcuts": "u" }, element("kbd", {}, "u"), "Undo the last label"),
    current.state === "item" && element("span", { class: "soft keys" }, "or ← → and Enter"));
}

/** A text with its title. */
function part(title, text) {
  return element("section", { class: "tile", "aria-label": title }, element("h2", {}, title),
    element("pre", { class: "text whole", dir: "auto" }, text === "" ? element("em", {}, "(an empty text)") : text));
}

function give(label) {
  const seconds = Math.min(1e6, Math.round(performance.now() - since) / 1000);
  if (current?.state === "item") send("tell", { item: current.item, choice: label, seconds });
}

function skip() {
  if (current?.state === "item") send("skip", { item: current.item });
}

function undo() {
  if (current?.undo) send("undo", {});
}

function onKey(event) {
  // A key that is held down gives one label.
  if (current === null || event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
  const digit = /^[1-9]$/.test(event.key) ? Number(event.key) : 0;
  const act = { s: skip, u: undo, r: () => current.state !== "item" && current.skipped && send("again", {}) }[event.key.toLowerCase()];
  if (digit && digit <= choices.length) give(digit - 1);
  else if (act) act();
  else if (event.key === "ArrowLeft" || event.key === "ArrowRight") move(event.key === "ArrowRight" ? 1 : -1);
  else return;
  event.preventDefault();
}

/** Move the focus among the labels. Enter gives the one with the focus. */
function move(step) {
  const buttons = [...asked.querySelectorAll(".labels button")];
  if (!buttons.length) return;
  const now = buttons.indexOf(document.activeElement);
  const next = now < 0 ? (step > 0 ? 0 : buttons.length - 1) : (now + step + buttons.length) % buttons.length;
  buttons[next].focus();
}

begin();
