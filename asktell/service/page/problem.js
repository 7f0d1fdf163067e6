// What went wrong, in words, and a way back.

function beginProblem() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
  theme();
  dark.addEventListener("change", theme);
  const { status, title, detail, home } = document.documentElement.dataset;
  document.getElementById("page").append(element("main", {},
    element("h1", {}, title),
    element("p", { class: "say" }, isolated(detail)),
    element("p", {}, element("a", { href: home }, "All studies"), " · ", element("a", { href: "" }, "Try again")),
    element("p", { class: "soft" }, `HTTP status ${status}. Programs are answered in JSON.`)));
}

beginProblem();
