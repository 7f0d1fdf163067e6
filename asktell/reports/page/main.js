// The page: the conclusion on its first screen, all other panels folded. It is drawn from a document, and again when the
// window or the theme changes.

const PANELS = [
  ["verdict", null, drawVerdict],
  ["plane", null, drawPlane],
  ["checks", "Which assumptions hold?", drawChecks],
  ["judge", "Is the judge right?", drawJudge, (data) => data.judges],
  ["prompts", "What is known about every prompt?", drawPrompts],
  ["segments", "How good are the prompts in each segment?", drawSegments, (data) => data.segments],
  ["factors", "Which model, prompt or setting matters?", drawFactors, (data) => data.factors],
  ["examples", "Which examples are hard, and which discriminate between prompts?", drawExamples],
  ["duel", (data) => `On which examples does the ${data.ruling ? "candidate" : "selected prompt"} win or lose?`, drawDuel],
  ["spending", "Where did the evaluations go?", drawSpending, (data) => !data.finished],
  ["costs", "What did it cost, and what failed?", drawCosts],
  ["made", "How was it made?", drawMade],
];
const PAINTED = new Set(["spending", "examples"]);

/** Draw the panels that are not folded: all of them, or those in `ids`. */
function show(data, ids = null) {
  for (const [id, title, draw] of PANELS) {
    const host = document.querySelector(`#${id} .panel`);
    if (ids && !ids.has(id)) continue;
    host.replaceChildren();
    if (title === null || host.parentNode.open) draw(host, data);
  }
}

/** Make a panel. If it has a title, it is folded, and drawn when it is opened. Opening it closes the others. */
function panelOf([id, title, draw, applies], page) {
  const host = element("div", { class: "panel" });
  const fold = ({ target }) => (target.open ? host.hasChildNodes() || draw(host, page.data) : host.replaceChildren());
  const body = title ? element("details", { name: "panel" }, element("summary", {}, element("h2", {}, typeof title === "string" ? title : title(page.data))), host) : host;
  if (title) body.addEventListener("toggle", fold);
  const section = element("section", { id, "aria-label": title ? body.querySelector("h2").textContent : id }, body);
  section.hidden = Boolean(applies) && !applies(page.data);
  return section;
}

function unfold(...ids) {
  for (const id of ids) {
    const body = document.querySelector(`#${id} > details`);
    body.open = true;
    body.dispatchEvent(new Event("toggle")); // at once, and not after the next frame
  }
}

function theme(name) {
  const dark = name === "dark" || (name === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

function header(page, redraw, more) {
  const keep = kept("page", { theme: "auto" }), { data } = page;
  const paint = (name) => {
    theme(name);
    redraw(PAINTED);
  };
  const change = (name) => paint(keep.theme = name);
  let folded = [];
  addEventListener("beforeprint", () => {
    if (document.documentElement.dataset.theme === "dark") paint("light"); // to print on white paper
    folded = [...document.querySelectorAll("section > details:not([open])")];
    for (const each of document.querySelectorAll("section > details")) each.name = ""; // so that all can be open
    unfold(...folded.map((each) => each.parentNode.id));
  });
  addEventListener("afterprint", () => {
    if (keep.theme !== "light") paint(keep.theme);
    for (const each of folded) each.open = false;
    for (const each of document.querySelectorAll("section > details")) each.name = "panel";
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => keep.theme === "auto" && change("auto"));
  return element("header", {},
    element("span", { class: "name" }, isolated(data.name || "Selection"), " ", element("small", {}, isolated(data.goal.text), more.length ? null : data.done ? " · final" : " · so far")),
    more,
    choice("Theme", [["auto", "system"], ["light", "light"], ["dark", "dark"]], keep.theme, change));
}

/** The text of the document: from the page itself, or from the address that the page has for it. */
async function documentText() {
  const source = document.getElementById("data").textContent;
  return source === "null" ? fetched(document.documentElement.dataset.live) : source;
}

async function begin() {
  theme("auto");
  const host = document.getElementById("page"), { live, home } = document.documentElement.dataset;
  let source;
  try {
    source = await documentText();
  } catch (error) {
    return replaceContent(host, element("main", {}, element("h1", {}, "Nothing to show"), element("p", {}, error.message), homeLink(home)));
  }
  const page = { data: prepared(source) };
  const redraw = (ids = null) => show(page.data, ids);
  const followed = live && (!page.data.done || home) ? follow(live, page.data, (data) => {
    page.data = data;
    redraw();
  }, (data) => pause && pause.fit(data)) : { nodes: [], said: () => {} };
  const pause = pauseButton(page.data, followed.said);
  host.append(
    header(page, redraw, [homeLink(home), followed.nodes, pause && pause.nodes, changeButtons(page.data)].flat().filter(Boolean)),
    element("main", {}, PANELS.map((panel) => panelOf(panel, page))),
  );
  redraw();
  let width = host.clientWidth, waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (host.clientWidth !== width) redraw();
      width = host.clientWidth;
    }, 150);
  });
}

function homeLink(home) {
  return home ? element("a", { href: home }, "All studies") : null;
}

begin();
