// Axes, labels that do not overlap, and figures with their numbers as a table.

const TEXT_HEIGHT = 15;
const MOST_LABELS = 15;
const MOST_MARKS = 2000; // that no name covers
const ruler = document.createElement("canvas").getContext("2d");

function widthOf(text, size = 12) {
  ruler.font = `${size}px system-ui, sans-serif`;
  return ruler.measureText(text).width;
}

/** The text, shortened to at most this width in pixels. */
function fitted(text, pixels, size = 12) {
  const letters = Array.from(text.slice(0, 200));
  if (letters.length === text.length && widthOf(text, size) <= pixels) return text;
  while (letters.length > 1 && widthOf(`${letters.join("")}…`, size) > pixels) letters.pop();
  return Array.from(text).length === letters.length ? text : `${letters.join("")}…`;
}

/** True if two numbers differ by more than errors of rounding. */
function isWide(low, high) {
  return high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high));
}

/** A function from numbers to pixels. Its `ticks` are round numbers. */
function scale(low, high, from, to, room = 0.04) {
  if (!isWide(low, high)) {
    const size = Math.abs(low) || 1;
    low -= size / 2;
    high += size / 2;
  }
  const spare = (high - low) * room;
  const bottom = low - spare, top = high + spare;
  const place = (x) => from + ((x - bottom) / (top - bottom)) * (to - from);
  place.low = bottom;
  place.high = top;
  place.ticks = (n) => {
    const rough = (top - bottom) / Math.max(1, n);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((each) => each >= rough);
    const found = [];
    for (let i = Math.ceil(bottom / step); i * step <= top; i += 1) found.push(i * step);
    if (found.length < 2 && n < 20) return place.ticks(n + 2); // one tick shows no distance
    return found.map((x) => Number(x.toPrecision(12)));
  };
  return place;
}

/** The SVG of a chart, with axes, grids and ticks. */
function frame(width, height, margin, x, y, names) {
  const picture = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const bottom = height - margin.bottom, right = width - margin.right;
  if (x) {
    for (const tick of x.ticks((right - margin.left) / 80)) {
      const at = x(tick);
      picture.append(shape("line", { class: "grid", x1: at, x2: at, y1: margin.top, y2: bottom }));
      picture.append(shape("text", { class: "soft", x: at, y: bottom + 16, "text-anchor": "middle" }, number(tick)));
    }
  }
  if (y) {
    for (const tick of y.ticks((bottom - margin.top) / 40)) {
      const at = y(tick);
      picture.append(shape("line", { class: "grid", x1: margin.left, x2: right, y1: at, y2: at }));
      picture.append(shape("text", { class: "soft", x: margin.left - 6, y: at + 4, "text-anchor": "end" }, number(tick)));
    }
  }
  picture.append(shape("line", { class: "axis", x1: margin.left, x2: right, y1: bottom, y2: bottom }));
  picture.append(shape("line", { class: "axis", x1: margin.left, x2: margin.left, y1: margin.top, y2: bottom }));
  if (names.x) {
    const text = fitted(names.x, width - 8, 13), half = widthOf(text, 13) / 2 + 4;
    picture.append(shape("text", { x: Math.min(width - half, Math.max(half, (margin.left + right) / 2)), y: height - 6, "text-anchor": "middle" }, text));
  }
  if (names.y) picture.append(shape("text", { x: 4, y: 13 }, fitted(names.y, width - 8, 13)));
  return picture;
}

/**
 * Write names next to points {x, y, text, color, must}, the first points first. No name covers a mark [x, y] or another
 * name, and none is left of `from`. A name that must be there is written farther away, with a line to its point, if there is no space beside it. Other
 * names without enough space are left out. Returns the names that must be there and have no space.
 */
function placeLabels(picture, points, marks, from, width, height) {
  const taken = marks.slice(0, MOST_MARKS).map(([x, y]) => ({ left: x - 7, right: x + 7, top: y - 7, bottom: y + 7 }));
  const area = { left: from, right: width - 2, top: 16, bottom: height }, missing = [];
  let placed = 0;
  for (const point of points) {
    if (placed >= MOST_LABELS) break;
    const most = Math.min(150, width * 0.4);
    // A name that must be there is rather shortened than left out
    const [text, box, isFar] = (point.must ? [most, 90, 60] : [most]).reduce(
      (before, pixels) => before || spotOf(point, fitted(point.text, pixels), taken, area), null) || [];
    if (!text) {
      if (point.must) missing.push(point.text);
      continue;
    }
    if (isFar) {
      const across = Math.min(box.right, Math.max(box.left, point.x)), up = point.y < box.top ? box.top + 3 : box.bottom - 2;
      picture.append(line(point.x, point.y, across, up, point.color, 1, 0.6));
    }
    const label = shape("text", { x: box.left, y: box.bottom - 5, class: "label" }, text);
    label.style.fill = point.color;
    label.style.fontWeight = "600";
    label.style.paintOrder = "stroke";
    label.style.stroke = "var(--back)";
    label.style.strokeWidth = "3px";
    picture.append(label);
    taken.push(box);
    placed += 1;
  }
  return missing;
}

/** A place for a point's name as [text, box, whether it is far from the point]. Null if there is no space. */
function spotOf(point, text, taken, area) {
  const wide = widthOf(text) * 1.08 + 4, { x, y } = point;
  const boxOf = ([left, base]) => ({ left, right: left + wide, top: base - TEXT_HEIGHT, bottom: base + 5 }); // the tallest fonts
  const isFree = (box) => box.left >= area.left && box.right <= area.right && box.top >= area.top && box.bottom <= area.bottom
    && !taken.some((t) => t.left < box.right && box.left < t.right && t.top < box.bottom && box.top < t.bottom);
  const beside = [
    [x + 9, y - 4], [x + 9, y + 14], [x - 9 - wide, y - 4], [x - 9 - wide, y + 14], [x - wide / 2, y - 13], [x - wide / 2, y + 23],
    [x + 14, y - 18], [x - 14 - wide, y - 18], [x + 14, y + 28], [x - 14 - wide, y + 28],
  ].map(boxOf).find(isFree);
  if (beside || !point.must) return beside ? [text, beside, false] : null;
  const far = spotsAround(point, wide, area).map(boxOf).find(isFree);
  return far ? [text, far, true] : null;
}

/** Places of a name in a chart, as [left, base], the nearest to its point first. */
function spotsAround(point, wide, { left: first, right, top, bottom }) {
  const spots = [];
  for (let left = first; left + wide < right; left += 6) {
    for (let base = top + TEXT_HEIGHT; base + 5 <= bottom; base += 4) {
      const across = Math.max(left - point.x, 0, point.x - left - wide), up = Math.max(base - TEXT_HEIGHT - point.y, 0, point.y - base - 5);
      spots.push([Math.hypot(across, up), left, base]);
    }
  }
  return spots.sort((a, b) => a[0] - b[0]).map(([, left, base]) => [left, base]);
}

/** A chart with a caption, a description for screen readers, and its numbers as a table. */
function figure(picture, name, caption, makeTable) {
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", name);
  const details = element("details", {}, element("summary", {}, "The numbers as a table"));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(makeTable());
  });
  return element("figure", {}, picture, element("figcaption", {}, caption), details);
}

/** The legend of a chart; `items` are [kind of sign, text]. */
function legend(items) {
  return element("div", { class: "key" }, items.map(([kind, text]) => {
    const sign = shape("svg", { width: 18, height: 16, "aria-hidden": "true" });
    sign.append(markOf(kind, 9, 8));
    return element("span", {}, sign, text);
  }));
}

const COLORS = { answer: "var(--answer)", rival: "var(--rival)", baseline: "var(--baseline)", other: "var(--other)", gone: "var(--other)" };

/** True for prompts that are neither selected nor still in contention. */
function isFaint(kind) {
  return kind === "other" || kind === "gone";
}

/** The sign of a prompt. Its kinds differ in shape as well as in color. */
function markOf(kind, x, y) {
  const forms = {
    answer: ["path", { d: `M${x} ${y - 6.5}L${x + 6.5} ${y}L${x} ${y + 6.5}L${x - 6.5} ${y}Z` }],
    rival: ["path", { d: `M${x} ${y - 5}L${x + 5} ${y + 4}L${x - 5} ${y + 4}Z` }],
    baseline: ["circle", { cx: x, cy: y, r: 6.5 }],
    other: ["circle", { cx: x, cy: y, r: 3.2 }],
    gone: ["path", { d: `M${x - 4} ${y - 4}L${x + 4} ${y + 4}M${x - 4} ${y + 4}L${x + 4} ${y - 4}` }],
  };
  const mark = shape(...forms[kind]);
  const open = kind === "baseline" || kind === "gone";
  mark.style.fill = open ? "none" : COLORS[kind];
  mark.style.stroke = open ? COLORS[kind] : "var(--back)";
  mark.style.strokeWidth = open ? "2.5px" : "1px";
  mark.style.pointerEvents = "all"; // shapes without a fill react to the pointer as well
  return mark;
}

function line(x1, y1, x2, y2, color, width = 1, opacity = 1) {
  const found = shape("line", { x1, y1, x2, y2, "stroke-width": width, opacity });
  found.style.stroke = color;
  return found;
}

/** Decode bytes from base64. */
function bytesOf(text) {
  const raw = atob(text), found = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) found[i] = raw.charCodeAt(i);
  return found;
}

/** A color of the page's theme as [red, green, blue]. */
function colorOf(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

const SCORES = ["--low", "--mid1", "--mid2", "--high"];
const COUNTS = ["--few", "--some", "--many", "--answer"];

/** Colors for the levels 0 (nothing) to 255. */
function palette(names) {
  const stops = names.map(colorOf);
  const found = [colorOf("--unseen")];
  for (let level = 1; level < 256; level += 1) {
    const at = ((level - 1) / 254) * 3, from = Math.min(2, Math.floor(at));
    found.push(stops[from].map((c, i) => Math.round(c + (stops[from + 1][i] - c) * (at - from))));
  }
  return found;
}

/** A canvas with a colored cell for each level. */
function cellPicture(levels, rows, columns, width, height, names) {
  const small = element("canvas", { width: columns, height: rows });
  const context = small.getContext("2d"), image = context.createImageData(columns, rows), colors = palette(names);
  for (let i = 0; i < levels.length; i += 1) {
    const [red, green, blue] = colors[levels[i]];
    image.data.set([red, green, blue, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
  const ratio = window.devicePixelRatio || 1;
  const canvas = element("canvas", { width: Math.round(width * ratio), height: Math.round(height * ratio), tabindex: "0" });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.style.border = "1px solid var(--line)";
  const large = canvas.getContext("2d");
  large.imageSmoothingEnabled = columns > canvas.width || rows > canvas.height;
  large.drawImage(small, 0, 0, canvas.width, canvas.height);
  return canvas;
}

/** Call `say(row, column)` for the cell under the pointer, and for cells reached with the arrow keys. */
function followCells(canvas, rows, columns, say) {
  let row = 0, column = 0;
  const tell = () => say(row, column);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    column = Math.max(0, Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns)));
    row = Math.max(0, Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)));
    tell();
  });
  canvas.addEventListener("focus", tell);
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    row = Math.max(0, Math.min(rows - 1, row + move[0]));
    column = Math.max(0, Math.min(columns - 1, column + move[1]));
    tell();
  });
}
