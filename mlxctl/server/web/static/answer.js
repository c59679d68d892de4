// One answer on the page: thinking, text, tool calls and counts, while it is generated and afterwards.

import { state } from "./conversation.js";
import { copyButton, count, el, notice } from "./dom.js";
import { markdown } from "./markdown.js";
import { readAloudButton } from "./voice.js";

// Drawing Markdown anew for every token would hold the page: it is drawn at most this often, and in a part of the time.
const DRAW_MILLISECONDS = 60;
const DRAW_SHARE = 0.2;
const NEAR_END_PIXELS = 120;
// Tokens that come within less time arrived together: their speed means nothing.
const MIN_SPEED_SECONDS = 0.05;

/** One answer; `again(entry)` and `continueWith(entry, results)` are what its buttons do. */
export function answerView(entry, { again, continueWith }) {
  const body = el("div", { class: "body" });
  const thoughts = el("div", { class: "body", dir: "auto" });
  const thinking = el("details", { hidden: true }, el("summary", {}, "Thinking"), thoughts);
  const calls = el("div", {});
  const facts = el("p", { class: "muted" });
  const buttons = el("div", { class: "actions", hidden: true },
    copyButton(() => text), readAloudButton(() => body.innerText, (message) => calls.after(notice(message, true))), el("button", { type: "button", class: "rewind", onclick: () => again(entry) }, "Try again"));
  const node = el("article", { class: "message assistant" }, el("h3", {}, "Model"), thinking, body, calls, facts, buttons);
  const tools = new Map();
  const started = performance.now();
  let text = "", thought = "", usage = null, first = null, reason = null, areCallsComplete = false;
  let timer = null, waiting = null, clock = null, drawSeconds = 0;
  // The beginning of the text, and how many blocks of the body show it: more text does not change them.
  let finalLength = 0, numFinal = 0, room;

  function draw() {
    const begun = performance.now();
    timer = null;
    if (thoughts.textContent !== thought) thoughts.textContent = thought;
    thinking.hidden = !thought;
    drawText();
    calls.replaceChildren(...[...tools.values()].map((call) => el("details", { open: true },
      el("summary", {}, `Tool call: ${call.name}`), el("pre", {}, el("code", {}, call.arguments)))));
    drawSeconds = (performance.now() - begun) / 1000;
  }

  function drawText() {
    const rest = text.slice(finalLength), starts = [];
    const blocks = markdown(rest, starts, room);
    // Each block has the direction of its text.
    for (const block of blocks) block.dir = "auto";
    replaceChanged(body, numFinal, blocks);
    // The first line of a block ends the one before it, once it is complete.
    const lastEnd = rest.lastIndexOf("\n"), last = starts.findLastIndex(({ position }) => position <= lastEnd);
    if (last > 0) {
      finalLength += starts[last].position;
      numFinal += last;
      room = starts[last].room;
    }
  }

  /** Fields for what the tools returned, under the last answer. */
  function resultFields() {
    const fields = [...tools.values()].map((call) => [call, el("input", { required: true, "aria-label": `Result of ${call.name}`, placeholder: `Result of ${call.name}` })]);
    calls.append(el("form", { class: "results", onsubmit: (event) => {
      event.preventDefault();
      continueWith(entry, fields.map(([call, field]) => ({ role: "tool", tool_call_id: call.id, content: field.value })));
    } }, ...fields.map(([, field]) => field), el("button", { class: "primary" }, "Send results")));
  }

  function tick() {
    const spent = `${((performance.now() - started) / 1000).toFixed(0)} s`;
    const doing = thought && !text && !tools.size ? "Thinking" : "Answering";
    facts.textContent = `${first === null ? waiting ?? "Waiting for the first token" : doing} · ${spent}`;
  }

  return {
    node,
    get isEmpty() { return !text && !thought && !tools.size; },
    get asksForResults() { return areCallsComplete; },
    // Templates that keep thinking get it back, so that the next prompt begins with the same tokens.
    get message() {
      const called = [...tools.values()].map(({ id, name, arguments: given }) => ({ id, type: "function", function: { name, arguments: given } }));
      return { role: "assistant", content: text, reasoning_content: thought || undefined, tool_calls: areCallsComplete ? called : undefined };
    },
    start() {
      // Screen readers read the answer when it is complete.
      node.setAttribute("aria-busy", "true");
      tick();
      clock = setInterval(tick, 1000);
    },
    show(message) {
      text = message.content;
      thought = message.reasoning_content ?? "";
      for (const [index, { id, function: called }] of (message.tool_calls ?? []).entries()) tools.set(index, { id, ...called });
      draw();
      areCallsComplete = tools.size > 0;
      if (areCallsComplete && state.entries.at(-1) === entry) resultFields();
      buttons.hidden = false;
    },
    wait(message) {
      waiting = message;
      tick();
    },
    add(chunk) {
      if (chunk.total) {
        waiting = `Prefill: ${count(chunk.prefilled)} of ${count(chunk.total)} tokens`;
        tick();
        return;
      }
      const choice = chunk.choices?.[0];
      const delta = choice?.delta ?? {};
      if (first === null && (delta.content || delta.reasoning_content || delta.tool_calls)) first = (performance.now() - started) / 1000;
      text += delta.content ?? "";
      thought += delta.reasoning_content ?? "";
      for (const call of delta.tool_calls ?? []) {
        const kept = tools.get(call.index) ?? { id: call.id, name: "", arguments: "" };
        kept.name += call.function?.name ?? "";
        kept.arguments += call.function?.arguments ?? "";
        tools.set(call.index, kept);
      }
      usage = chunk.usage ?? usage;
      reason = choice?.finish_reason ?? reason;
      timer ??= setTimeout(() => following(draw), Math.max(DRAW_MILLISECONDS, 1000 * drawSeconds / DRAW_SHARE));
    },
    notify(message, isError = false) { following(() => calls.after(notice(message, isError))); },
    finish() {
      const total = (performance.now() - started) / 1000;
      clearTimeout(timer);
      clearInterval(clock);
      node.removeAttribute("aria-busy");
      const parts = [];
      if (usage) {
        parts.push(`${count(usage.prompt_tokens)} prompt tokens (${count(usage.prompt_tokens_details?.cached_tokens ?? 0)} cached)`,
          `${count(usage.completion_tokens)} completion tokens`);
        if (first !== null && total - first > MIN_SPEED_SECONDS) parts.push(`${((usage.completion_tokens - 1) / (total - first)).toFixed(1)} tokens/s`);
      }
      if (first !== null) parts.push(`first token ${first.toFixed(2)} s`);
      if (reason === "length") parts.push("stopped at the length limit");
      following(() => {
        draw();
        areCallsComplete = reason === "tool_calls";
        if (areCallsComplete) resultFields();
        buttons.hidden = false;
        facts.textContent = parts.join(" · ");
      });
    },
  };
}

export function scrollToEnd() {
  scrollTo({ top: document.body.scrollHeight });
}

/** Change the page; a reader who is at its end stays there. */
function following(change) {
  const isAtEnd = innerHeight + scrollY >= document.body.scrollHeight - NEAR_END_PIXELS;
  change();
  if (isAtEnd) scrollToEnd();
}

/** Replace the children after `numKept` that differ: a selection, a focus or a scrolled code block above them stays. */
function replaceChanged(parent, numKept, children) {
  const old = [...parent.children].slice(numKept);
  const numSame = children.findIndex((child, index) => !old[index]?.isEqualNode(child));
  const same = numSame < 0 ? children.length : numSame;
  for (const child of old.slice(same)) child.remove();
  for (const child of children.slice(same)) parent.append(child);
}
