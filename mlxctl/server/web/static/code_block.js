// A block of code with its language, and buttons to wrap, save and copy it.

import { copyButton, download, el, iconButton } from "./dom.js";

/** How many elements a block has, without those of its code. */
export const CODE_ELEMENTS = 14;

const SUFFIXES = {
  bash: "sh", c: "c", cpp: "cpp", csharp: "cs", css: "css", diff: "diff", go: "go", html: "html", java: "java", javascript: "js", js: "js", json: "json",
  kotlin: "kt", lua: "lua", markdown: "md", python: "py", py: "py", ruby: "rb", rust: "rs", sh: "sh", shell: "sh", sql: "sql", swift: "swift", toml: "toml",
  ts: "ts", typescript: "ts", xml: "xml", yaml: "yml",
};

export function codeBlock(code, language) {
  const wrap = iconButton("wrap", "Wrap lines", () => wrap.setAttribute("aria-pressed", String(block.classList.toggle("wrapped"))), { "aria-pressed": "false" });
  const block = el("div", { class: "code" },
    el("div", { class: "head" }, el("span", {}, language || "text"), wrap,
      iconButton("download", "Save as a file", () => download(`code.${SUFFIXES[language.toLowerCase()] ?? "txt"}`, code)), copyButton(() => code)),
    // Reachable by key: a long line scrolls.
    el("pre", { tabindex: "0", "aria-label": `Code: ${language || "text"}`, role: "region" }, el("code", { "data-language": language }, code)));
  return block;
}
