// Marks inside a line of Markdown: emphasis, code, links, math and footnotes.
// The time must be proportional to the length, also of marks that are never closed.

// Where a mark may begin.
const OPENING = /`+|\*\*?|_|~~|\[|\$\$?|\\[([]|https?:\/\//g;
const PAIRED = { "**": "strong", "*": "em", _: "em", "~~": "s" };
const MATH_END = { $: /\$/g, $$: /\$\$/g, "\\(": /\\\)/g, "\\[": /\\\]/g };
const FOOTNOTE = /\[\^([\w-]{1,20})\]/y;
const LABEL_END = /\]/g;
const TARGET = /\]\(https?:\/\//y;
const TARGET_END = /[\s)]/g;
const ADDRESS = /https?:\/\/[^\s<>"'`|]*[^\s<>"'`|.,;:!?)\]*_]/y;

/** Return a line of text as nodes; `make` creates an element, and `hasRoom` says whether it may. */
export function inline(text, make, hasRoom) {
  const nodes = [], markAt = marksOf(text, make, hasRoom);
  // What precedes `begin` is in the nodes; no mark begins between it and `at`.
  let begin = 0, at = 0;
  for (let found; hasRoom() && (found = matchFrom(OPENING, text, at)); ) {
    const [opening] = found;
    at = found.index;
    const mark = markAt(at, opening, begin);
    if (mark) {
      if (at > begin) nodes.push(text.slice(begin, at));
      nodes.push(mark.node);
      begin = at = mark.end;
    } else {
      // A run of backticks that opens no code as a whole opens none from its middle.
      at += opening[0] === "`" ? opening.length : 1;
    }
  }
  if (begin < text.length) nodes.push(text.slice(begin));
  return nodes;
}

/** Return what reads the mark at a position as {node, end}, or null; positions never decrease. */
function marksOf(text, make, hasRoom) {
  const mathEnds = {};
  const labelEnd = searchIn(text, LABEL_END), targetEnd = searchIn(text, TARGET_END);
  let runs = null;

  function code(at, { length }) {
    runs ??= Map.groupBy([...text.matchAll(/`+/g)].reverse(), ([run]) => run.length);
    // The closing run has as many backticks; those that it lacks belong to the code.
    for (let size = length; size > 0; size -= 1) {
      const closing = runs.get(size) ?? [];
      while (closing.at(-1)?.index < at + length) closing.pop();
      if (closing.length) return { node: make("code", {}, text.slice(at + size, closing.at(-1).index)), end: closing.at(-1).index + size };
    }
    return null;
  }

  function paired(at, opening, begin) {
    // Only `**` may have its character between the marks.
    const start = at + opening.length, end = text.indexOf(opening === "~~" ? "~" : opening, start + 1);
    if (end < 0 || !text.startsWith(opening, end) || text[start] === opening[0] || isSpace(text[start])) return null;
    // snake_case is no emphasis.
    if (opening === "_" && ((at > begin && isWord(text[at - 1])) || isWord(text[end + 1]))) return null;
    return { node: make(PAIRED[opening], {}, inline(text.slice(start, end), make, hasRoom)), end: end + opening.length };
  }

  function math(at, opening) {
    const start = at + opening.length, end = (mathEnds[opening] ??= searchIn(text, MATH_END[opening]))(start), after = end + opening.length;
    if (end === Infinity || end === start) return null;
    // Prices and variables of a shell are no math.
    if (opening === "$" && (isSpace(text[start]) || isSpace(text[end - 1]) || isWord(text[after]))) return null;
    return { node: make("span", { class: "math" }, text.slice(at, after)), end: after };
  }

  function labelled(at) {
    const note = matchFrom(FOOTNOTE, text, at);
    if (note) return { node: make("sup", {}, note[1]), end: at + note[0].length };
    const end = labelEnd(at + 1);
    if (end === at + 1 || text[end + 1] !== "(" || !matchFrom(TARGET, text, end)) return null;
    const start = TARGET.lastIndex, close = targetEnd(start);
    return close > start && text[close] === ")" ? { node: link(make, text.slice(end + 2, close), text.slice(at + 1, end)), end: close + 1 } : null;
  }

  function bare(at) {
    const found = matchFrom(ADDRESS, text, at);
    return found && { node: link(make, found[0], found[0]), end: at + found[0].length };
  }

  return (at, opening, begin) => {
    if (opening[0] === "`") return code(at, opening);
    if (opening in MATH_END) return math(at, opening);
    if (opening === "[") return labelled(at);
    return opening in PAIRED ? paired(at, opening, begin) : bare(at);
  };
}

function link(make, href, label) {
  return make("a", { href, rel: "noreferrer", target: "_blank" }, label);
}

/** Return a search for the first match at or after a position; positions never decrease, so that nothing is searched twice. */
function searchIn(text, pattern) {
  let found = -1;
  return (from) => {
    if (found < from) found = matchFrom(pattern, text, from)?.index ?? Infinity;
    return found;
  };
}

function matchFrom(pattern, text, from) {
  pattern.lastIndex = from;
  return pattern.exec(text);
}

function isSpace(character) {
  return character === undefined || /\s/.test(character);
}

function isWord(character) {
  return character !== undefined && /\w/.test(character);
}
