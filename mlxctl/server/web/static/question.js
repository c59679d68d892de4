// A question on the page, with what is attached to it.

import { questionActions } from "./actions.js";
import { attachmentView } from "./attachments.js";
import { attachedTo, state, textOf } from "./conversation.js";
import { el } from "./dom.js";
import { scrollToEnd } from "./scroll.js";

export function questionNode(entry, does) {
  const { message } = entry, views = attachedTo(message).map(attachmentView);
  // An image has its height once it is decoded.
  for (const view of views) view.addEventListener("load", () => { if (state.running) scrollToEnd(); });
  return el("article", { class: "message user" }, el("h2", { class: "unseen" }, "You"),
    el("div", { class: "bubble" }, el("div", { class: "body", dir: "auto" }, textOf(message)), views.length ? el("div", { class: "attachments" }, ...views) : null),
    el("footer", {}, el("div", { class: "actions", role: "group", "aria-label": "Actions" }, ...questionActions(entry, textOf(message), does))));
}
