// Markdown of language models as elements: blocks, then inline marks. What is no mark stays visible text.

import { el } from "./dom.js";

/** Return the elements of a Markdown text, which may still grow. */
export function markdown(text) {
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
    if (/^\s*([-*+]|\d+[.)])\s+/.test(line)) {
      const ordered = /^\s*\d/.test(line);
      const items = [];
      for (; i < lines.length; i += 1) {
        const item = lines[i].match(/^\s*(?:[-*+]|\d+[.)])\s+(.*)$/);
        if (item) items.push([item[1]]);
        else if (/^\s+\S/.test(lines[i]) && items.length) items.at(-1).push(lines[i].trim());
        else break;
      }
      blocks.push(el(ordered ? "ol" : "ul", {}, ...items.map((item) => el("li", {}, ...inline(item.join(" "))))));
      continue;
    }
    if (line.startsWith(">")) {
      const quoted = [];
      for (; i < lines.length && lines[i].startsWith(">"); i += 1) quoted.push(lines[i].replace(/^> ?/, ""));
      blocks.push(el("blockquote", {}, ...markdown(quoted.join("\n"))));
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
    for (; i < lines.length && lines[i].trim() !== "" && !/^(```|~~~|#{1,6}\s|>)/.test(lines[i]); i += 1) paragraph.push(lines[i]);
    blocks.push(el("p", {}, ...paragraph.flatMap((part, index) => [...(index ? [el("br")] : []), ...inline(part)])));
  }
  return blocks;
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
  const copy = el("button", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(code);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return el("div", { class: "code" },
    el("div", { class: "head" }, el("span", {}, language || "text"), copy),
    el("pre", {}, el("code", {}, code)));
}

const MARKS = /(`+)([\s\S]*?[^`])\1(?!`)|\*\*([^\s*][\s\S]*?)\*\*|\*([^\s*][^*]*?)\*|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/;

function inline(text) {
  const nodes = [];
  let rest = text;
  for (let found = MARKS.exec(rest); found; found = MARKS.exec(rest)) {
    if (found.index) nodes.push(rest.slice(0, found.index));
    const [whole, , code, strong, emphasis, label, href] = found;
    if (code !== undefined) nodes.push(el("code", {}, code));
    else if (strong !== undefined) nodes.push(el("strong", {}, ...inline(strong)));
    else if (emphasis !== undefined) nodes.push(el("em", {}, ...inline(emphasis)));
    else nodes.push(el("a", { href, rel: "noreferrer", target: "_blank" }, label));
    rest = rest.slice(found.index + whole.length);
  }
  if (rest) nodes.push(rest);
  return nodes;
}
