// A table that sorts, pages and, where asked to, opens a row.

const ROWS_A_PAGE = 25;
const alphabet = new Intl.Collator(undefined, { numeric: true });

/**
 * A table of rows.
 * columns: {name, value: row -> number or text to sort by, cell: row -> node or text, kind: "number", "wide", "id"}.
 * options: sort [column, direction], detail: row -> node (a row opens), label, keep: an object that remembers the state.
 */
function table(columns, rows, options = {}) {
  const keep = options.keep || {};
  keep.sort = keep.sort || options.sort || null;
  keep.page = keep.page || 0;
  keep.open = keep.open || new Set();
  const head = element("tr"), body = element("tbody"), pager = element("div", { class: "controls pager" });
  let shown = rows;

  function sorted() {
    if (!keep.sort) return rows;
    const [index, direction] = keep.sort, value = columns[index].value;
    const keyed = rows.map((row) => [value(row), row]);
    keyed.sort(([a], [b]) => compared(a, b, direction));
    return keyed.map(([, row]) => row);
  }

  function drawHead() {
    replaceContent(head, columns.map((column, index) => {
      const active = keep.sort && keep.sort[0] === index;
      const state = active ? (keep.sort[1] > 0 ? "ascending" : "descending") : "none";
      const sign = active ? (keep.sort[1] > 0 ? " ▲" : " ▼") : "";
      const content = column.value
        ? element("button", { type: "button", onclick: () => sortBy(index) }, isolated(column.name), sign)
        : isolated(column.name);
      return element("th", { scope: "col", class: column.kind, "aria-sort": column.value ? state : null }, content);
    }));
  }

  function sortBy(index) {
    const first = columns[index].kind === "number" ? -1 : 1;
    const again = keep.sort && keep.sort[0] === index;
    keep.sort = [index, again ? -keep.sort[1] : first];
    keep.page = 0;
    shown = sorted();
    draw();
    head.children[index].querySelector("button").focus();
  }

  function drawBody() {
    const start = keep.page * ROWS_A_PAGE;
    replaceContent(body, shown.slice(start, start + ROWS_A_PAGE).map((row) => {
      const cells = columns.map((column) => element("td", { class: column.kind }, column.cell(row)));
      const main = element("tr", {}, cells);
      if (!options.detail) return main;
      const detail = element("tr", { class: "detail" }, element("td", { colspan: columns.length }));
      const opener = element("button", { type: "button", class: "link", "aria-expanded": "false" }, "open");
      const set = (open) => {
        detail.hidden = !open;
        opener.setAttribute("aria-expanded", String(open));
        opener.textContent = open ? "close" : "open";
        opener.setAttribute("aria-label", `${opener.textContent} ${cells[0].firstChild.textContent}`);
        if (open && !detail.firstChild.hasChildNodes()) detail.firstChild.append(options.detail(row));
        if (open) keep.open.add(row);
        else keep.open.delete(row);
      };
      opener.addEventListener("click", () => set(detail.hidden));
      cells[0].append(" ", opener);
      set(keep.open.has(row));
      return [main, detail];
    }));
  }

  function drawPager() {
    const pages = Math.max(1, Math.ceil(shown.length / ROWS_A_PAGE));
    keep.page = Math.min(keep.page, pages - 1);
    const from = keep.page * ROWS_A_PAGE;
    const text = shown.length ? `${whole(from + 1)} to ${whole(Math.min(shown.length, from + ROWS_A_PAGE))} of ${whole(shown.length)}` : "none";
    const step = (n) => () => {
      keep.page += n;
      draw();
      const [back, on] = pager.querySelectorAll("button");
      const same = n < 0 ? back : on;
      (same.disabled ? (n < 0 ? on : back) : same).focus();
    };
    replaceContent(pager, pages === 1 ? [] : [
      element("button", { type: "button", disabled: keep.page === 0, onclick: step(-1) }, "Previous"),
      element("button", { type: "button", disabled: keep.page === pages - 1, onclick: step(1) }, "Next"),
    ], element("span", { class: "soft", "aria-live": "polite" }, text));
  }

  function draw() {
    drawHead();
    drawPager();
    drawBody();
  }

  const node = element("div", {},
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.label || "table" },
      element("table", {}, element("thead", {}, head), body)),
    pager);
  node.setRows = (others) => {
    rows = others;
    shown = sorted();
    keep.page = 0;
    draw();
  };
  shown = sorted();
  draw();
  return node;
}

/** Compare two values in a direction. Missing values come last. */
function compared(a, b, direction) {
  const noA = a === null || a === undefined, noB = b === null || b === undefined;
  if (noA || noB) return noA - noB;
  if (typeof a === "number" && typeof b === "number") return direction * (a - b);
  return direction * alphabet.compare(String(a).slice(0, 100), String(b).slice(0, 100));
}

/** A table of text, without anything to press. */
function plainTable(names, rows, label) {
  const columns = names.map((name, i) => ({ name, cell: (row) => row[i], kind: typeof (rows[0] || [])[i] === "number" ? "number" : "wide" }));
  return table(columns, rows, { label });
}
