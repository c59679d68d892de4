// Markdown of language models as elements: blocks, then inline marks. What is no mark stays visible text.
// Answers may be long and repetitive: the time must be proportional to the length, also of marks that are never closed.

import { copyButton, el } from "./dom.js";

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+/;
const RULE = /^ {0,3}(?=([-*_])\s*\1\s*\1)(?:[-\s]+|[*\s]+|[_\s]+)$/;
const BLOCK = /^ {0,3}(```|~~~|#{1,6}\s|>)/;
// Deeper lists and quotes are shown as text: the call stack has an end.
const MAX_DEPTH = 10;
// What follows in an answer is shown as text. Chromium on two busy cores laid out 25,000 list items in 1.3 s,
const MAX_ELEMENTS = 10_000;
// and a row of 50,000 cells in 48 s.
const MAX_COLUMNS = 100;

// How many more elements the running call may create.
let room = 0;

/**
 * Return the blocks of a Markdown text, which may still grow. `starts` gets {position, room} of each: where it begins,
 * and how many elements it and those after it may have.
 */
export function markdown(text, starts = [], maxElements = MAX_ELEMENTS) {
  room = maxElements;
  const lines = text.split("\n"), begun = [];
  const blocks = blocksOf(lines, 0, begun);
  let i = 0, position = 0;
  for (const start of begun.slice(0, blocks.length)) {
    for (; i < start.line; i += 1) position += lines[i].length + 1;
    starts.push({ position, room: start.room });
  }
  return blocks;
}

function make(name, attributes, ...children) {
  room -= 1;
  return el(name, attributes, ...children);
}

function blocksOf(lines, depth, begun = []) {
  if (depth > MAX_DEPTH) return [make("p", {}, lines.join("\n"))];
  const blocks = [];
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    begun[blocks.length] = { line: i, room };
    if (room <= 0) {
      blocks.push(make("p", {}, lines.slice(i).join("\n")));
      break;
    }
    const fence = line.match(/^ {0,3}(```+|~~~+)\s*([\w+#.-]*)/);
    if (fence) {
      const code = [];
      for (i += 1; i < lines.length && !lines[i].trimStart().startsWith(fence[1]); i += 1) code.push(lines[i]);
      i += 1;
      blocks.push(codeBlock(code.join("\n"), fence[2]));
      continue;
    }
    const heading = line.match(/^(#{1,6})\s+/);
    if (heading) {
      blocks.push(make(`h${Math.min(6, heading[1].length + 2)}`, {}, inline(line.slice(heading[0].length))));
      i += 1;
      continue;
    }
    if (RULE.test(line)) {
      blocks.push(make("hr"));
      i += 1;
      continue;
    }
    const first = line.match(ITEM);
    if (first) {
      const items = [];
      for (let item = first; item && room > 0; item = lines[i]?.match(ITEM)) {
        if (/\d/.test(item[2]) !== /\d/.test(first[2]) || item[1].length > first[1].length + 3) break;
        // What is indented below the mark belongs to the item: text, code and lists.
        const indent = item[1].length + 2;
        const inner = [lines[i].slice(item[0].length)];
        for (i += 1; i < lines.length; i += 1) {
          const isBlank = lines[i].trim() === "";
          const isInside = lines[i].search(/\S/) >= indent || (isBlank && (lines[i + 1] ?? "").search(/\S/) >= indent);
          if (!isInside && (isBlank || opensBlock(lines[i]))) break;
          inner.push(lines[i].slice(Math.min(indentOf(lines[i]), item[1].length + item[2].length + 1)));
        }
        items.push(make("li", {}, unwrapped(blocksOf(inner, depth + 1))));
        while (lines[i]?.trim() === "" && ITEM.test(lines[i + 1] ?? "")) i += 1;
      }
      const isOrdered = /\d/.test(first[2]);
      blocks.push(make(isOrdered ? "ol" : "ul", { start: isOrdered && first[2].slice(0, -1) }, items));
      continue;
    }
    if (line.startsWith(">")) {
      const quoted = [];
      for (; i < lines.length && lines[i].startsWith(">"); i += 1) quoted.push(lines[i].replace(/^> ?/, ""));
      blocks.push(make("blockquote", {}, blocksOf(quoted, depth + 1)));
      continue;
    }
    if (isRow(line) && /^\|[\s:|-]+\|\s*$/.test(lines[i + 1] ?? "")) {
      const head = rowOf(line, "th"), rows = [];
      for (i += 2; i < lines.length && isRow(lines[i]) && room > 0; i += 1) rows.push(rowOf(lines[i], "td"));
      blocks.push(make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, rows))));
      continue;
    }
    if (line.trim() === "") { i += 1; continue; }
    const parts = [inline(line)];
    for (i += 1; i < lines.length && lines[i].trim() !== "" && !opensBlock(lines[i]) && room > 0; i += 1) {
      parts.push(make("br"), inline(lines[i]));
    }
    blocks.push(make("p", {}, parts.flat()));
  }
  return blocks;
}

function opensBlock(line) {
  return BLOCK.test(line) || RULE.test(line) || ITEM.test(line);
}

function indentOf(line) {
  return line.length - line.trimStart().length;
}

/** An item of one paragraph is shown as its text. */
function unwrapped(blocks) {
  return blocks[0]?.tagName === "P" ? [...blocks[0].childNodes, ...blocks.slice(1)] : blocks;
}

function isRow(line) {
  return /^\|.*\|$/s.test(line.trimEnd()) && cellsOf(line).length <= MAX_COLUMNS;
}

function cellsOf(line) {
  return line.trim().slice(1, -1).split("|", MAX_COLUMNS + 1);
}

function rowOf(line, kind) {
  return make("tr", {}, cellsOf(line).map((cell) => make(kind, {}, inline(cell.trim()))));
}

function codeBlock(code, language) {
  return make("div", { class: "code" },
    make("div", { class: "head" }, make("span", {}, language || "text"), copyButton(() => code)),
    make("pre", {}, make("code", {}, code)));
}

// Where a mark may begin.
const OPENING = /`+|\*\*?|_|~~|\[|https?:\/\//g;
const PAIRED = { "**": "strong", "*": "em", _: "em", "~~": "s" };
const LABEL_END = /\]/g;
const TARGET = /\]\(https?:\/\//y;
const TARGET_END = /[\s)]/g;
const ADDRESS = /https?:\/\/[^\s<>"'`|]*[^\s<>"'`|.,;:!?)\]*_]/y;

/** Return a line of text as nodes. */
function inline(text) {
  const nodes = [], markAt = marksOf(text);
  // What precedes `begin` is in the nodes; no mark begins between it and `at`.
  let begin = 0, at = 0;
  for (let found; room > 0 && (found = matchFrom(OPENING, text, at)); ) {
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
function marksOf(text) {
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
    return { node: make(PAIRED[opening], {}, inline(text.slice(start, end))), end: end + opening.length };
  }

  function labelled(at) {
    const end = labelEnd(at + 1);
    if (end === at + 1 || text[end + 1] !== "(" || !matchFrom(TARGET, text, end)) return null;
    const start = TARGET.lastIndex, close = targetEnd(start);
    return close > start && text[close] === ")" ? { node: link(text.slice(end + 2, close), text.slice(at + 1, end)), end: close + 1 } : null;
  }

  function bare(at) {
    const found = matchFrom(ADDRESS, text, at);
    return found && { node: link(found[0], found[0]), end: at + found[0].length };
  }

  return (at, opening, begin) => {
    if (opening[0] === "`") return code(at, opening);
    if (opening === "[") return labelled(at);
    return opening in PAIRED ? paired(at, opening, begin) : bare(at);
  };
}

function link(href, label) {
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
