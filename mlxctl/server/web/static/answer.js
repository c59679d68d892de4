// One answer on the page: thinking, text, tool calls and counts, while it is generated and afterwards.

import { answerActions } from "./actions.js";
import { state } from "./conversation.js";
import { count, el, notice } from "./dom.js";
import { countsOf, lineOf } from "./facts.js";
import { highlight } from "./highlight.js";
import { icon } from "./icons.js";
import { markdown } from "./markdown.js";
import { showMath } from "./math.js";
import { following } from "./scroll.js";
import { resultFields, toolCard } from "./tool_call.js";

// Drawing Markdown anew for every token would hold the page: it is drawn at most this often, and in a part of the time.
const DRAW_MILLISECONDS = 50;
const DRAW_SHARE = 0.2;

/** One answer; `does` has what its buttons do. */
export function answerView(entry, does) {
  const body = el("div", { class: "body" });
  const thoughts = el("div", { class: "body", dir: "auto" });
  const summary = el("span", {}, "Thinking");
  const thinking = el("details", { class: "thinking", hidden: true }, el("summary", {}, icon("thought"), summary), thoughts);
  const calls = el("div", { class: "calls" }), notices = el("div", {});
  const facts = el("p", { class: "facts" });
  const actions = el("div", { class: "actions", role: "group", "aria-label": "Actions", hidden: true });
  const node = el("article", { class: "message assistant" }, el("h2", {}, entry.facts?.model ?? state.model ?? "Model"),
    thinking, body, calls, notices, el("footer", {}, actions, facts));
  const tools = new Map(), budget = {};
  let text = "", thought = "", usage = null, reason = null, isOver = false, isComplete = false, areCallsComplete = false;
  let started = performance.now(), first = null, thinkingSeconds = null, timer = null, waiting = null, clock = null, drawSeconds = 0;
  // The beginning of the text, and how many blocks of the body show it: more text does not change them.
  let finalLength = 0, numFinal = 0, numFinished = 0, room;

  function draw() {
    const begun = performance.now();
    timer = null;
    if (thoughts.textContent !== thought) thoughts.textContent = thought;
    thinking.hidden = !thought;
    drawText();
    if (tools.size) calls.replaceChildren(...[...tools.values()].map((call) => toolCard(call)));
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
    for (const end = isOver ? body.children.length : numFinal; numFinished < end; numFinished += 1) finishBlock(body.children[numFinished], budget);
  }

  function tick() {
    const spent = seconds();
    const doing = thought && !text && !tools.size ? "Thinking" : "Answering";
    const speed = countsOf(usage, first, spent).speed;
    facts.textContent = [first === null ? waiting ?? "Waiting for the first token" : doing, `${spent.toFixed(0)} s`,
      usage && `${count(usage.completion_tokens)} tokens`, speed && `${speed.toFixed(1)} tokens/s`].filter(Boolean).join(" · ");
  }

  function seconds() {
    return (performance.now() - started) / 1000;
  }

  /** Show the whole answer with what can be done with it. */
  function conclude() {
    isOver = true;
    draw();
    summary.textContent = entry.facts?.thinking >= 0.1 ? `Thought for ${entry.facts.thinking.toFixed(entry.facts.thinking < 10 ? 1 : 0)} s` : "Thinking";
    for (const code of calls.querySelectorAll("code")) highlight(code);
    if (areCallsComplete && state.entries.at(-1) === entry) calls.append(resultFields([...tools.values()], (results) => does.continueWith(entry, results)));
    facts.textContent = entry.facts ? lineOf(entry.facts) : "";
    actions.replaceChildren(...answerActions(entry, text, !isComplete && Boolean(text), does, view));
    actions.hidden = false;
  }

  const view = {
    node,
    words: () => body.innerText,
    get isEmpty() { return !text && !thought && !tools.size; },
    get asksForResults() { return areCallsComplete; },
    // Templates that keep thinking get it back, so that the next prompt begins with the same tokens.
    get message() {
      const called = [...tools.values()].map(({ id, name, arguments: given }) => ({ id, type: "function", function: { name, arguments: given } }));
      return { role: "assistant", content: text, reasoning_content: thought || undefined, tool_calls: areCallsComplete ? called : undefined };
    },
    /** Begin, or continue what is shown. */
    start() {
      // Screen readers read the answer when it is complete.
      node.setAttribute("aria-busy", "true");
      [started, first, usage, reason, waiting] = [performance.now(), null, null, null, null];
      [isOver, actions.hidden, numFinished] = [false, true, numFinal];
      notices.replaceChildren();
      // Until it is complete, also when the page is closed meanwhile.
      entry.facts = { ...entry.facts, model: state.model, reason: "incomplete" };
      tick();
      clock = setInterval(tick, 1000);
    },
    show(message) {
      text = message.content;
      thought = message.reasoning_content ?? "";
      for (const [index, { id, function: called }] of (message.tool_calls ?? []).entries()) tools.set(index, { id, ...called });
      areCallsComplete = tools.size > 0;
      isComplete = ["stop", "tool_calls", undefined].includes(entry.facts?.reason);
      conclude();
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
      if (first === null && (delta.content || delta.reasoning_content || delta.tool_calls)) first = seconds();
      if (thought && thinkingSeconds === null && (delta.content || delta.tool_calls)) thinkingSeconds = seconds() - first;
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
    notify(message, isError = false) { following(() => notices.append(notice(message, isError))); },
    finish() {
      clearTimeout(timer);
      clearInterval(clock);
      node.removeAttribute("aria-busy");
      isComplete = reason !== null && reason !== "length";
      areCallsComplete = reason === "tool_calls";
      entry.facts = { model: state.model, thinking: thinkingSeconds ?? (thought && first !== null ? seconds() - first : entry.facts?.thinking),
        reason: reason ?? "incomplete", ...countsOf(usage, first, seconds()) };
      following(conclude);
    },
  };
  return view;
}

/** Color the code of a block that will not change, and draw its formulas. */
function finishBlock(block, budget) {
  for (const code of block.querySelectorAll(".code code")) highlight(code);
  for (const math of [block, ...block.querySelectorAll(".math")]) if (math.matches(".math")) showMath(math, budget);
}

/** Replace the children after `numKept` that differ: a selection, a focus or a scrolled code block above them stays. */
function replaceChanged(parent, numKept, children) {
  const old = [...parent.children].slice(numKept);
  const numSame = children.findIndex((child, index) => !old[index]?.isEqualNode(child));
  const same = numSame < 0 ? children.length : numSame;
  for (const child of old.slice(same)) child.remove();
  for (const child of children.slice(same)) parent.append(child);
}
