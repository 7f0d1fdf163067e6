// The list of studies, and what has changed in it every few seconds.

const SECONDS_BETWEEN_LISTS = 5;

function drawStudies(host, studies, keep) {
  const columns = [
    { name: "study", kind: "id", value: (row) => row.name, cell: (row) => element("a", { href: `studies/${encodeURIComponent(row.name)}` }, isolated(row.name)) },
    { name: "state", kind: "wide", value: (row) => row.state, cell: (row) => row.state },
    { name: "spent", kind: "wide", value: (row) => row.part, cell: (row) => [element("progress", { max: 1, value: row.part, "aria-label": `progress of ${row.name}`, title: percent(row.part) }), " ", row.spending] },
    { name: "answer", kind: "wide", value: (row) => row.answer, cell: (row) => isolated(brief(row.answer || "–", 120)) },
    { name: "workers", kind: "number", value: (row) => row.workers, cell: (row) => number(row.workers) },
    { name: "failures", kind: "number", value: (row) => row.failures, cell: (row) => number(row.failures) },
  ];
  replaceContent(host, studies.length ? table(columns, studies, { keep, label: "studies" }) : element("p", {}, "There are no studies yet."));
}

function beginList() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
  theme();
  dark.addEventListener("change", theme);
  const words = element("span", { class: "soft", "aria-live": "polite" }), list = element("div", { class: "scroll" }), keep = {};
  document.getElementById("page").append(
    element("header", {}, element("span", { class: "name" }, "asktell"), words),
    element("main", { class: "list" }, element("h1", {}, "Studies"), list));
  let before = "";

  async function look() {
    try {
      const answer = await fetch("studies", { cache: "no-store", credentials: "same-origin" });
      if (answer.status === 401) return location.reload(); // the browser asks for the token again
      if (!answer.ok) throw new Error(`${answer.status}`);
      const text = await answer.text(), found = JSON.parse(text);
      const unread = found.n - found.studies.length;
      words.textContent = `${whole(found.n)} ${found.n === 1 ? "study" : "studies"}${unread ? `, ${whole(unread)} not read yet` : ""}`;
      if (text !== before && !list.contains(document.activeElement)) {
        drawStudies(list, found.studies.reverse(), keep);
        before = text;
      }
    } catch {
      words.textContent = "The service is unreachable";
    }
    setTimeout(look, SECONDS_BETWEEN_LISTS * 1000);
  }
  look();
}

beginList();
