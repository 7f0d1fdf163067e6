// Elements and numbers. All strings of a document become text nodes: nothing here parses markup.

const SVG = document.querySelector("svg").namespaceURI;

/** An HTML element. Attributes whose names begin with "on" are listeners. Children are nodes or text. */
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** A text of the user, isolated: its writing direction does not affect the words around it. */
function isolated(text) {
  return element("bdi", {}, text);
}

function replaceContent(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

/** A number with four significant digits. */
function number(x) {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e7 || size < 1e-4) return x.toExponential(2);
  if (size >= 1000) return Math.round(x).toLocaleString("en-US");
  return String(Number(x.toPrecision(4)));
}

function signed(x) {
  return x === null || x === undefined ? "–" : (x > 0 ? "+" : "") + number(x).replace("-", "−");
}

function whole(n) {
  return n.toLocaleString("en-US");
}

function percent(x) {
  if (x === null || x === undefined) return "–";
  if (x > 0 && x < 0.01) return "< 1%";
  if (x < 1 && x > 0.99) return "> 99%";
  return `${Math.round(100 * x)}%`;
}

/** A probability, rounded to the accuracy that a few hundred draws allow. */
function chance(x) {
  if (x === null || x === undefined) return "–";
  return x < 0.005 ? "< 1%" : x > 0.995 ? "> 99%" : `${Math.round(100 * x)}%`;
}

function estimate(mean, error) {
  if (mean === null) return "–";
  return error === null ? number(mean) : `${number(mean)} ± ${Number(error.toPrecision(2))}`;
}

/** The start of a text in one line. */
function brief(text, length) {
  const flat = text.replace(/\s+/g, " ").trim();
  const letters = Array.from(flat.slice(0, 4 * length));
  return letters.length <= length && flat.length <= 4 * length ? flat : letters.slice(0, length - 1).join("") + "…";
}

let labels = 0;

/** A control with its label. */
function labelled(text, control) {
  control.id = `control-${(labels += 1)}`;
  return element("label", { for: control.id }, text, control);
}

/** A select element with its label. `options` are [value, text]. */
function choice(text, options, value, onchange) {
  const items = options.map(([key, shown]) => element("option", { value: key, selected: key === value }, shown));
  const control = element("select", { onchange: () => onchange(control.value) }, items);
  return labelled(text, control);
}
