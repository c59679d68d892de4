// Markdown of language models as elements: blocks, then inline marks. What is no mark stays visible text.
// Answers may be long and repetitive: the time must be proportional to the length, also of marks that are never closed.

import { CODE_ELEMENTS, codeBlock } from "./code_block.js";
import { el } from "./dom.js";
import { inline } from "./inline.js";

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+/;
const RULE = /^ {0,3}(?=([-*_])\s*\1\s*\1)(?:[-\s]+|[*\s]+|[_\s]+)$/;
const BLOCK = /^ {0,3}(```|~~~|#{1,6}\s|>)/;
const MATH = /^ {0,3}(?:\$\$|\\\[)/;
const FOOTNOTE_TEXT = /^\[\^([\w-]{1,20})\]:\s/;
const TASK = /^\[([ xX])\]\s+/;
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

/** Return a line of text as nodes. */
function marked(text) {
  return inline(text, make, () => room > 0);
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
      room -= CODE_ELEMENTS;
      blocks.push(codeBlock(code.join("\n"), fence[2]));
      continue;
    }
    if (isMath(line)) {
      const begin = i, end = mathEnd(line);
      // LaTeX ends at an empty line, too.
      for (let isOpen = !line.includes(end, line.search(/\S/) + 2); i + 1 < lines.length && isOpen && lines[i + 1].trim() !== ""; i += 1) {
        isOpen = !lines[i + 1].trimEnd().endsWith(end);
      }
      i += 1;
      blocks.push(make("div", { class: "math" }, lines.slice(begin, i).join("\n")));
      continue;
    }
    const footnote = line.match(FOOTNOTE_TEXT);
    if (footnote) {
      blocks.push(make("p", { class: "footnote" }, make("sup", {}, footnote[1]), " ", marked(line.slice(footnote[0].length))));
      i += 1;
      continue;
    }
    const heading = line.match(/^(#{1,6})\s+/);
    if (heading) {
      blocks.push(make(`h${Math.min(6, heading[1].length + 2)}`, {}, marked(line.slice(heading[0].length))));
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
        const task = inner[0].match(TASK);
        if (task) inner[0] = inner[0].slice(task[0].length);
        const isDone = task && task[1] !== " ";
        items.push(make("li", { class: task && "task" }, task && make("input", { type: "checkbox", disabled: true, checked: isDone, "aria-label": isDone ? "done" : "to do" }),
          unwrapped(blocksOf(inner, depth + 1))));
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
    const parts = [marked(line)];
    for (i += 1; i < lines.length && lines[i].trim() !== "" && !opensBlock(lines[i]) && room > 0; i += 1) {
      parts.push(make("br"), marked(lines[i]));
    }
    blocks.push(make("p", {}, parts.flat()));
  }
  return blocks;
}

function opensBlock(line) {
  return BLOCK.test(line) || RULE.test(line) || ITEM.test(line) || FOOTNOTE_TEXT.test(line) || isMath(line);
}

/** Whether a line begins a formula of its own, and no text. */
function isMath(line) {
  if (!MATH.test(line)) return false;
  const end = line.indexOf(mathEnd(line), line.search(/\S/) + 2);
  return end < 0 || line.slice(end + 2).trim() === "";
}

function mathEnd(line) {
  return line.trimStart().startsWith("$$") ? "$$" : "\\]";
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
  return make("tr", {}, cellsOf(line).map((cell) => make(kind, {}, marked(cell.trim()))));
}
