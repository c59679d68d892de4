// Calls of tools and their results, as cards.

import { codeBlock } from "./code_block.js";
import { el } from "./dom.js";
import { icon } from "./icons.js";

export function toolCard({ name, arguments: given }) {
  return el("details", { class: "card", open: true },
    el("summary", {}, icon("tool"), el("span", {}, `Tool call: ${name}`)), codeBlock(given, "json"));
}

export function resultCard(message) {
  return el("article", { class: "message tool" }, el("details", { class: "card", open: true },
    el("summary", {}, icon("check"), el("span", {}, "Tool result")), el("div", { class: "body", dir: "auto" }, message.content)));
}

/** Return a form for what tools returned; `send(results)` gets messages of the role `tool`. */
export function resultFields(calls, send) {
  const fields = calls.map((call) => [call, el("input", { required: true, "aria-label": `Result of ${call.name}`, placeholder: `Result of ${call.name}` })]);
  return el("form", { class: "results", onsubmit: (event) => {
    event.preventDefault();
    send(fields.map(([call, field]) => ({ role: "tool", tool_call_id: call.id, content: field.value })));
  } }, ...fields.map(([, field]) => field), el("button", { class: "primary" }, "Send results"));
}
