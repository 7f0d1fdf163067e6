// The page: its panels in their order, drawn from a document, and drawn anew when the window or the theme changes.

const PANELS = [
  ["verdict", "The verdict", drawVerdict],
  ["plane", "The prompts by their metrics", drawPlane],
  ["prompts", "Every prompt", drawPrompts],
  ["spending", "Where the evaluations went", drawSpending],
  ["settling", "How the answer settled", drawSettling],
  ["examples", "Prompts and examples", drawExamples],
  ["duel", "Example by example", drawDuel],
  ["costs", "Cost, time and failures", drawCosts],
  ["made", "How it was made", drawMade],
];
const LONG = new Set(["prompts", "spending", "examples", "duel", "costs"]);

const PAINTED = new Set(["spending", "examples"]);

/** Draw a document, or the same one anew: all panels, or those that are named. */
function show(data, ids = null) {
  for (const [id, title, draw] of PANELS) {
    if (ids && !ids.has(id)) continue;
    const section = document.getElementById(id), host = element("div");
    replaceContent(section, id === "verdict" ? null : element("h2", { id: `${id}-title` }, title), host);
    draw(host, data);
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
  addEventListener("beforeprint", () => document.documentElement.dataset.theme === "dark" && paint("light")); // paper is
  addEventListener("afterprint", () => keep.theme !== "light" && paint(keep.theme));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => keep.theme === "auto" && change("auto"));
  return element("header", {},
    element("span", { class: "name" }, isolated(data.name || "Selection"), " ", element("small", {}, isolated(data.goal.text), more.length ? null : data.done ? " · final" : " · so far")),
    more,
    choice("Theme", [["auto", "as the system"], ["light", "light"], ["dark", "dark"]], keep.theme, change));
}

/** The document: in the page, or where the page says that it is. */
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
  const page = { data: prepared(JSON.parse(source)) };
  page.data.source = source;
  const redraw = (ids = null) => show(page.data, ids);
  const pause = pauseButton(page.data);
  const more = live && (!page.data.done || home) ? follow(live, page.data, (data) => {
    page.data = data;
    redraw();
  }, (data) => pause && pause.fit(data)) : [];
  host.append(
    header(page, redraw, [homeLink(home), more, pause && pause.nodes, changeButtons(page.data)].flat().filter(Boolean)),
    element("nav", { "aria-label": "panels" }, PANELS.map(([id, title]) => element("a", { href: `#${id}` }, title))),
    element("main", {}, PANELS.map(([id, title]) => element("section", { id, class: LONG.has(id) ? "long" : null, "aria-label": title }))),
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
