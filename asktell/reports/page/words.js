// What differs between two texts, word by word (Myers 1986).

const MOST_CHANGES = 1500;

/** Split a text into words and the spaces between them. Browsers with Intl.Segmenter also split Japanese and the like. */
function wordsOf(text) {
  if (typeof Intl !== "undefined" && Intl.Segmenter) {
    return Array.from(new Intl.Segmenter(undefined, { granularity: "word" }).segment(text), (part) => part.segment);
  }
  return text.match(/\s+|[^\s]+/g) || [];
}

/** Parts [kind, text] of two texts. Kind 0: in both, -1: in the first, 1: in the second. Null if they differ too much. */
function difference(from, to) {
  const a = wordsOf(from), b = wordsOf(to);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = shortest(a.slice(start, a.length - end), b.slice(start, b.length - end));
  if (middle === null) return null;
  const same = (words) => words.map((word) => [0, word]);
  return joined([...same(a.slice(0, start)), ...middle, ...same(a.slice(a.length - end))]);
}

function shortest(a, b) {
  const trace = [];
  const reached = new Map([[1, 0]]);
  for (let changes = 0; changes <= Math.min(a.length + b.length, MOST_CHANGES); changes += 1) {
    trace.push(new Map(reached));
    for (let k = -changes; k <= changes; k += 2) {
      const down = k === -changes || (k !== changes && reached.get(k - 1) < reached.get(k + 1));
      let x = down ? reached.get(k + 1) : reached.get(k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reached.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkedBack(a, b, trace);
    }
  }
  return null;
}

function walkedBack(a, b, trace) {
  const parts = [];
  let x = a.length, y = b.length;
  for (let changes = trace.length - 1; changes >= 0; changes -= 1) {
    const reached = trace[changes], k = x - y;
    const down = k === -changes || (k !== changes && reached.get(k - 1) < reached.get(k + 1));
    const before = down ? k + 1 : k - 1, fromX = reached.get(before), fromY = fromX - before;
    while (x > fromX && y > fromY && x > 0 && y > 0) {
      x -= 1;
      y -= 1;
      parts.push([0, a[x]]);
    }
    if (changes === 0) break;
    if (down) parts.push([1, b[(y -= 1)]]);
    else parts.push([-1, a[(x -= 1)]]);
  }
  return parts.reverse();
}

function joined(parts) {
  const found = [];
  for (const [kind, text] of parts) {
    const last = found[found.length - 1];
    if (last && last[0] === kind) last[1] += text;
    else found.push([kind, text]);
  }
  return found;
}

/** A view of two texts, with deleted and inserted words marked. */
function differenceView(from, to) {
  const parts = difference(from, to);
  if (parts === null) return element("p", { class: "soft" }, "The two texts have too little in common for a comparison word by word.");
  const nodes = parts.map(([kind, text]) => (kind === 0 ? text : element(kind < 0 ? "del" : "ins", {}, text)));
  return element("pre", { class: "text", dir: "auto" }, nodes);
}
