// The composer: the message that is written, its files, the queue behind it, and what decides its answer.

import { attachments } from "./attachments.js";
import { attachedTo, state, textOf } from "./conversation.js";
import { el, iconButton } from "./dom.js";
import { microphone } from "./voice.js";

/**
 * `parts` are {picker, options}, the model picker and the options panel; `does` has submit(), stop(), takeBack(items)
 * and cancelEdit(). `area` is where files may be dropped.
 */
export function composer({ picker, options }, does, area) {
  const input = el("textarea", { id: "prompt", rows: 1, "aria-label": "Message", dir: "auto", placeholder: "Ask something", onkeydown: keys, oninput: grow });
  const attached = attachments(state.attachments, input, area);
  const recording = microphone((text) => composed.write([input.value.trimEnd(), text].filter(Boolean).join(" "), [...state.attachments]), attached.problem);
  const queued = el("ul", { class: "queue", "aria-label": "Queue" });
  const editing = el("p", { class: "muted editing", hidden: true }, "Sending this begins another version of the chat. ",
    el("button", { type: "button", onclick: () => does.cancelEdit() }, "Cancel"));
  const send = iconButton("send", "Send", () => does.submit(), { class: "primary round" });
  const stop = iconButton("stop", "Stop", () => does.stop(), { class: "primary round" });
  const row = el("div", { class: "row" }, attached.file, attached.button, recording.button, options.button, el("span", { class: "space" }), picker.button, stop, send);
  const node = el("div", { class: "composer" }, queued, editing, attached.problem,
    el("div", { class: "box", onclick: (event) => { if (event.target === event.currentTarget) input.focus(); } }, attached.previews, input, row));

  function keys(event) {
    // Enter and Escape of an input method; Safari marks them by the code alone.
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); does.submit(); }
    if (event.key === "Escape" && state.running) does.stop();
    else if (event.key === "Escape" && state.editing) does.cancelEdit();
    if (event.key === "ArrowUp" && !input.value && state.queue.length) { event.preventDefault(); does.takeBack(state.queue.slice(-1)); }
  }

  function grow() {
    state.draft = input.value;
    input.style.height = "auto";
    input.style.height = `${input.scrollHeight}px`;
    show();
  }

  function show() {
    send.hidden = state.running !== null && !input.value;
    stop.hidden = state.running === null;
    const label = state.running ? "Queue" : "Send";
    send.setAttribute("aria-label", label);
    send.title = label;
  }

  const composed = {
    node, input, recording,
    /** Show what the state allows. */
    update() {
      // A focused button that is hidden or removed leaves the focus nowhere; in the field Escape stops.
      const active = document.activeElement;
      const isFree = [document.body, send, stop].includes(active) || (active === input && !input.value);
      show();
      queued.replaceChildren(...state.queue.map((item) => el("li", {}, el("span", { dir: "auto" }, `Queued: ${item.text}`),
        el("button", { type: "button", onclick: () => does.takeBack([item]) }, "Take back"))));
      editing.hidden = state.editing === null;
      if (isFree) (document.querySelector(".results input") ?? input).focus({ preventScroll: true });
    },
    write(text, parts) {
      input.value = text;
      attached.set(parts);
      grow();
      input.focus();
    },
    /** Put a question into the composer; none leaves it empty. */
    edit(entry) {
      this.write(entry ? textOf(entry.message) : "", entry ? attachedTo(entry.message) : []);
    },
    takeFiles: attached.take,
    warn(problem) { attached.problem.textContent = problem; },
  };
  return composed;
}
