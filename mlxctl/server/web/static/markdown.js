// Markdown of language models as elements: blocks, then inline marks. What is no mark stays visible text.

import { copyButton, el } from "./dom.js";

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const BLOCK = /^ {0,3}(```|~~~|#{1,6}\s|>|([-*_])( *\2){2,} *$)/;
// Deeper lists and quotes are shown as text: the call stack has an end.
const MAX_DEPTH = 10;

/** Return the elements of a Markdown text, which may still grow. */
export function markdown(text, depth = 0) {
  if (depth > MAX_DEPTH) return [el("p", {}, text)];
  const lines = text.split("\n");
  const blocks = [];
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    const fence = line.match(/^ {0,3}(```+|~~~+)\s*([\w+#.-]*)/);
    if (fence) {
      const code = [];
      for (i += 1; i < lines.length && !lines[i].trimStart().startsWith(fence[1]); i += 1) code.push(lines[i]);
      i += 1;
      blocks.push(codeBlock(code.join("\n"), fence[2]));
      continue;
    }
    const heading = line.match(/^(#{1,6})\s+(.*)$/);
    if (heading) {
      blocks.push(el(`h${Math.min(6, heading[1].length + 2)}`, {}, ...inline(heading[2])));
      i += 1;
      continue;
    }
    if (RULE.test(line)) {
      blocks.push(el("hr"));
      i += 1;
      continue;
    }
    const first = line.match(ITEM);
    if (first) {
      const items = [];
      for (let item = first; item; item = lines[i]?.match(ITEM)) {
        if (/\d/.test(item[2]) !== /\d/.test(first[2]) || item[1].length > first[1].length + 3) break;
        // What is indented below the mark belongs to the item: text, code and lists.
        const indent = item[1].length + 2;
        const inner = [item[3]];
        for (i += 1; i < lines.length; i += 1) {
          const isBlank = lines[i].trim() === "";
          const isInside = lines[i].search(/\S/) >= indent || (isBlank && (lines[i + 1] ?? "").search(/\S/) >= indent);
          if (!isInside && (isBlank || ITEM.test(lines[i]) || BLOCK.test(lines[i]))) break;
          inner.push(lines[i].slice(Math.min(indentOf(lines[i]), item[1].length + item[2].length + 1)));
        }
        items.push(inner.join("\n"));
        while (lines[i]?.trim() === "" && ITEM.test(lines[i + 1] ?? "")) i += 1;
      }
      const isOrdered = /\d/.test(first[2]);
      blocks.push(el(isOrdered ? "ol" : "ul", { start: isOrdered && first[2].slice(0, -1) },
        ...items.map((item) => el("li", {}, ...unwrapped(markdown(item, depth + 1))))));
      continue;
    }
    if (line.startsWith(">")) {
      const quoted = [];
      for (; i < lines.length && lines[i].startsWith(">"); i += 1) quoted.push(lines[i].replace(/^> ?/, ""));
      blocks.push(el("blockquote", {}, ...markdown(quoted.join("\n"), depth + 1)));
      continue;
    }
    if (/^\|.*\|\s*$/.test(line) && /^\|[\s:|-]+\|\s*$/.test(lines[i + 1] ?? "")) {
      const rows = [];
      for (; i < lines.length && /^\|.*\|\s*$/.test(lines[i]); i += 1) rows.push(cells(lines[i]));
      blocks.push(tableOf(rows[0], rows.slice(2)));
      continue;
    }
    if (line.trim() === "") { i += 1; continue; }
    const paragraph = [];
    for (; i < lines.length && lines[i].trim() !== "" && (!paragraph.length || !(BLOCK.test(lines[i]) || ITEM.test(lines[i]))); i += 1) paragraph.push(lines[i]);
    blocks.push(el("p", {}, ...paragraph.flatMap((part, index) => [...(index ? [el("br")] : []), ...inline(part)])));
  }
  return blocks;
}

function indentOf(line) {
  return line.length - line.trimStart().length;
}

/** An item of one paragraph is shown as its text. */
function unwrapped(blocks) {
  return blocks[0]?.tagName === "P" ? [...blocks[0].childNodes, ...blocks.slice(1)] : blocks;
}

function cells(line) {
  return line.trim().slice(1, -1).split("|").map((cell) => cell.trim());
}

function tableOf(head, rows) {
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, ...head.map((cell) => el("th", {}, ...inline(cell))))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, ...inline(cell))))))));
}

function codeBlock(code, language) {
  return el("div", { class: "code" },
    el("div", { class: "head" }, el("span", {}, language || "text"), copyButton(() => code)),
    el("pre", {}, el("code", {}, code)));
}

const MARKS = /(`+)([\s\S]*?[^`])\1(?!`)|\*\*([^\s*][\s\S]*?)\*\*|\*([^\s*][^*]*?)\*|(?<![\w_])_([^\s_][^_]*?)_(?!\w)|~~([^\s~][^~]*?)~~|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>"'`|]*[^\s<>"'`|.,;:!?)\]*_])/;

function inline(text) {
  const nodes = [];
  let rest = text;
  for (let found = MARKS.exec(rest); found; found = MARKS.exec(rest)) {
    if (found.index) nodes.push(rest.slice(0, found.index));
    const [whole, , code, strong, starred, underlined, struck, label, href, bare] = found;
    const emphasis = starred ?? underlined;
    if (code !== undefined) nodes.push(el("code", {}, code));
    else if (strong !== undefined) nodes.push(el("strong", {}, ...inline(strong)));
    else if (emphasis !== undefined) nodes.push(el("em", {}, ...inline(emphasis)));
    else if (struck !== undefined) nodes.push(el("s", {}, ...inline(struck)));
    else nodes.push(el("a", { href: href ?? bare, rel: "noreferrer", target: "_blank" }, label ?? bare));
    rest = rest.slice(found.index + whole.length);
  }
  if (rest) nodes.push(rest);
  return nodes;
}
