// What an empty chat shows: what to do next.

import { el } from "./dom.js";

const IDEAS = [
  "Explain what a mutex is, with a short example.",
  "Write a Python function that finds the longest word of a text.",
  "What can you do?",
];

/** `ask(text)` sends an example. */
export function welcome(ask) {
  return el("div", { class: "welcome" },
    el("h2", {}, "What can I help with?"),
    el("p", { class: "muted" }, "Models run on this server, unless the list of models names another one. Chats are stored in this browser only. Drop images, PDF or text files here to ask about them."),
    el("div", { class: "ideas" }, ...IDEAS.map((text) => el("button", { type: "button", onclick: () => ask(text) }, text))),
    el("p", { class: "muted" }, el("a", { href: "#models" }, "See what else fits this machine"), ", or press ", el("kbd", {}, "?"), " outside of the field for the keys."));
}
