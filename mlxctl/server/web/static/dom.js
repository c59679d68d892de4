// Elements from data. Text is always set as text, never parsed as HTML.

import { icon } from "./icons.js";

/** Create an element: `el("a", {href: "#x", class: "y", onclick: f}, "text", child, [children])`. */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else node.setAttribute(key, value);
  }
  // One by one: a call has room for some 100,000 arguments.
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

/** A button that shows an icon; its label is read aloud and shown under the pointer. */
export function iconButton(name, label, onclick, attributes = {}) {
  return el("button", { type: "button", "aria-label": label, title: label, ...attributes, class: `quiet ${attributes.class ?? ""}`.trim(), onclick }, icon(name));
}

/** A table; a column is {title, cell: row => text or node, number?: boolean}. */
export function table(columns, rows, empty) {
  if (rows.length === 0) return el("p", { class: "muted" }, empty);
  const head = columns.map((column) => (column.title ? el("th", { scope: "col", class: column.number && "number" }, column.title) : el("td")));
  const body = rows.map((row) => el("tr", {}, ...columns.map(
    (column) => el("td", { class: column.number && "number", "data-label": column.title }, column.cell(row) ?? "–"))));
  return el("div", { class: "scroll rows" },
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body)));
}

export function notice(text, isError = false) {
  return el("p", { class: isError ? "notice error" : "notice", role: isError ? "alert" : "status" }, text);
}

/** A button that copies a text; `text` is a function. Pages of other machines without TLS have no clipboard. */
export function copyButton(text) {
  const button = iconButton("copy", "Copy", async () => {
    let isCopied = true;
    try { await navigator.clipboard.writeText(text()); } catch { isCopied = false; }
    button.replaceChildren(icon(isCopied ? "check" : "close"), isCopied ? "Copied" : "Not allowed here");
    setTimeout(() => button.replaceChildren(icon("copy")), 1500);
  });
  return button;
}

/** Let the user save a text as a file. */
export function download(name, text) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

/** 1500 -> "1.5 kB", as the commands print sizes. */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return null;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes, unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function count(number) {
  return number === null || number === undefined ? null : number.toLocaleString("en-US");
}

export function seconds(value) {
  return value === null || value === undefined ? null : `${value.toFixed(value < 10 ? 2 : 0)} s`;
}
