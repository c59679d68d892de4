// Keys that work on the whole page, and the list of all keys.

import { el } from "./dom.js";

const KEYS = [
  ["Enter", "Send; during an answer: queue"],
  ["Shift Enter", "New line"],
  ["Escape", "Stop the answer; cancel an edit"],
  ["↑", "In an empty message: take the last queued one back"],
  ["Ctrl Shift O", "New chat"],
  ["Ctrl K", "Search chats"],
  ["Ctrl B", "Show or hide the sidebar"],
  ["/", "Go to the message"],
  ["?", "These keys"],
];
const IS_MAC = /Mac|iP(hone|ad)/.test(navigator.platform);

/** `does` has newChat(), search() and toggle(), of the sidebar. */
export function listenToKeys(does) {
  addEventListener("keydown", (event) => {
    if (event.isComposing || event.keyCode === 229 || event.altKey) return;
    const key = event.key.toLowerCase();
    let action = null;
    if (IS_MAC ? event.metaKey : event.ctrlKey) {
      action = event.shiftKey ? { o: does.newChat }[key] : { k: does.search, b: does.toggle }[key];
    } else if (!event.metaKey && !event.ctrlKey && !event.target.closest?.("input, textarea, select, dialog, [popover]")) {
      action = { "/": focusMessage, "?": showKeys }[key];
    }
    if (!action) return;
    event.preventDefault();
    action();
  });
}

export function showKeys() {
  const name = (keys) => keys.split(" ").map((key) => el("kbd", {}, IS_MAC && key === "Ctrl" ? "⌘" : key));
  const dialog = el("dialog", { "aria-labelledby": "keys-title", onclose: () => dialog.remove() },
    el("h2", { id: "keys-title" }, "Keys"),
    el("table", { class: "keys" }, el("tbody", {}, ...KEYS.map(([keys, effect]) => el("tr", {}, el("th", { scope: "row" }, ...name(keys)), el("td", {}, effect))))),
    el("menu", {}, el("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

function focusMessage() {
  document.getElementById("prompt")?.focus();
}
