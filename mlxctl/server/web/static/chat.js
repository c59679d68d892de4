// Chat: streams answers of /v1/chat/completions, with thinking, tool calls and images.

import { get, stream } from "./api.js";
import { attachments } from "./attachments.js";
import { copyButton, count, el, notice } from "./dom.js";
import { markdown } from "./markdown.js";

// Drawing Markdown anew for every token would hold the page.
const DRAW_MILLISECONDS = 60;
const SAVED = "mlxctl-chat";
const NEAR_END_PIXELS = 120;
// Tokens that come within less time arrived together: their speed means nothing.
const MIN_SPEED_SECONDS = 0.05;

// Kept in this tab, also when the page is loaded again. An entry is {message, node}.
const state = { entries: [], images: [], model: null, running: null, options: {} };
restore();

// What the buttons of entries do, in the view that is on the page now. A running answer outlives its view.
let actions = null;

export async function chatView(root) {
  const select = el("select", { id: "model", onchange: () => { state.model = select.value; save(); } });
  const transcript = el("section", { class: "transcript", "aria-label": "Conversation", "aria-live": "polite" });
  const input = el("textarea", { id: "prompt", "aria-label": "Message", placeholder: "Message. Enter sends, Shift-Enter adds a line.", onkeydown: keys, oninput: grow });
  const attached = attachments(state.images, input);
  // Enter before the models are known sends the message once they are.
  let isSubmitted = false;
  const send = el("button", { class: "primary", type: "button", onclick: submit }, "Send");
  const stop = el("button", { type: "button", disabled: true, onclick: () => state.running?.abort() }, "Stop");
  root.append(el("div", { class: "chat" },
    el("div", { class: "toolbar" },
      el("label", { for: "model" }, "Model ", select),
      el("button", { type: "button", onclick: clear }, "New chat"), optionFields()),
    transcript,
    el("div", { class: "composer" }, attached.previews, input,
      el("div", { class: "row" }, attached.problem, attached.file, attached.button, stop, send))));
  actions = {
    edit(entry) {
      if (!rewind(entry)) return;
      input.value = textOf(entry.message);
      attached.set(imagesOf(entry.message));
      grow();
      input.focus();
    },
    again(entry) { if (rewind(entry)) answer(); },
    /** Send what the tools of the last answer returned; `results` are {role: "tool"} messages. */
    async continueWith(entry, results) {
      if (state.running || state.entries.at(-1) !== entry) return;
      entry.node = null;
      state.entries.push(...results.map((message) => ({ message })));
      await answer();
    },
    update() {
      // A focused button that is disabled or removed leaves the focus nowhere; in the field Escape stops.
      const active = document.activeElement;
      const isFree = [document.body, send, stop].includes(active) || (active === input && !input.value);
      send.disabled = state.running !== null;
      stop.disabled = state.running === null;
      if (isFree) (transcript.querySelector(".results input") ?? input).focus({ preventScroll: true });
    },
  };
  draw();
  actions.update();
  input.focus();

  const models = (await get("/v1/models")).data.filter((model) => ["text", "vision", "unknown"].includes(model.kind));
  select.replaceChildren(...models.map((model) => el("option", { value: model.id, disabled: model.state === "failed" }, model.id)));
  if (state.model && models.some((model) => model.id === state.model)) select.value = state.model;
  state.model = select.value || null;
  if (!state.model) transcript.append(notice("This server has no model for text. Start it with: mlxctl serve --model NAME", true));
  else if (isSubmitted) submit();

  function keys(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
    if (event.key === "Escape") state.running?.abort();
  }

  function grow() {
    input.style.height = "auto";
    input.style.height = `${input.scrollHeight + 2}px`;
  }

  function draw() {
    transcript.replaceChildren(...state.entries.map((entry) => entry.node ??= entryNode(entry)));
    if (!state.entries.length) transcript.append(el("p", { class: "muted" }, "Ask something. The conversation stays in this tab."));
  }

  /** Remove an entry and everything after it; returns false while an answer is generated. */
  function rewind(entry) {
    if (state.running) return false;
    state.entries.length = state.entries.indexOf(entry);
    save();
    draw();
    return true;
  }

  function clear() {
    state.running?.abort();
    state.entries = [];
    attached.set([]);
    save();
    draw();
    input.focus();
  }

  async function submit() {
    const text = input.value.trim();
    if (!text && state.images.length) attached.problem.textContent = "Add a question about the image.";
    if (!text || state.running) return;
    if (!state.model) {
      isSubmitted = true;
      return;
    }
    input.value = "";
    grow();
    const last = state.entries.at(-1);
    // Its fields for tool results go.
    if (last?.message.tool_calls) last.node = null;
    const images = attached.take();
    const content = images.length
      ? [{ type: "text", text }, ...images.map((url) => ({ type: "image_url", image_url: { url } }))] : text;
    state.entries.push({ message: { role: "user", content } });
    await answer();
  }

  async function answer() {
    const entry = { message: { role: "assistant", content: "" } };
    const view = answerView(entry);
    const messages = messagesToSend();
    entry.node = view.node;
    state.entries.push(entry);
    save();
    draw();
    scrollToEnd();
    const running = state.running = new AbortController();
    actions.update();
    view.start();
    try {
      await receive(view, { ...body(), messages }, running.signal);
    } catch (error) {
      if (error.name === "AbortError") view.notify("Stopped.");
      else view.notify(view.isEmpty ? error.message : `This answer is incomplete: ${error.message}`, true);
    } finally {
      view.finish();
      entry.message = view.message;
      state.running = null;
      save();
      actions.update();
    }
  }
}

/** Add the chunks of an answer to `view`; waits while the server loads its model. */
async function receive(view, body, signal) {
  for (;;) {
    try {
      for await (const chunk of stream("/v1/chat/completions", body, signal)) view.add(chunk);
      return;
    } catch (error) {
      if (error.status !== 503 || error.retrySeconds === null) throw error;
      view.wait(error.message);
      await pause(1000 * error.retrySeconds, signal);
    }
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
  });
}

/** The conversation for the server: without answers that have no text, and their questions, and without calls that have no results. */
function messagesToSend() {
  const messages = state.options.system ? [{ role: "system", content: state.options.system }] : [];
  for (const [index, { message }] of state.entries.entries()) {
    if (message.role === "user" && messages.at(-1)?.role === "user") messages.pop();
    const { tool_calls: calls, ...answer } = message;
    if (message.role !== "assistant" || (calls && state.entries[index + 1]?.message.role === "tool")) messages.push(message);
    else if (answer.content) messages.push(answer);
  }
  return messages;
}

function body() {
  const { temperature, max_tokens, thinking, tools } = state.options;
  return {
    model: state.model, stream: true, stream_options: { include_usage: true },
    ...(temperature !== undefined && { temperature }), ...(max_tokens !== undefined && { max_tokens }),
    ...(thinking && { chat_template_kwargs: { enable_thinking: thinking === "on" } }),
    ...(tools && { tools: JSON.parse(tools) }),
  };
}

function optionFields() {
  const change = (name, value) => { state.options[name] = value; save(); };
  const number = (name, label, attributes) => el("label", {}, label, el("input", { type: "number", placeholder: "default", value: state.options[name], ...attributes,
    onchange: (event) => {
      if (event.target.reportValidity()) change(name, event.target.value === "" ? undefined : Number(event.target.value));
    } }));
  const thinking = el("select", { onchange: () => change("thinking", thinking.value || undefined) },
    ...[["", "Model default"], ["on", "On"], ["off", "Off"]].map(([value, label]) =>
      el("option", { value, selected: (state.options.thinking ?? "") === value }, label)));
  const tools = el("textarea", { id: "tools", rows: 3, spellcheck: "false",
    placeholder: '[{"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}]',
    oninput: () => tools.setCustomValidity(""),
    onchange: () => {
      tools.setCustomValidity(problemOfTools(tools.value.trim()));
      if (tools.reportValidity()) change("tools", tools.value.trim() || undefined);
    } }, state.options.tools ?? "");
  return el("details", { class: "options" }, el("summary", {}, "Options"), el("div", { class: "fields" },
    el("label", { class: "wide" }, "System prompt", el("input", { id: "system", value: state.options.system, onchange: (event) => change("system", event.target.value || undefined) })),
    number("temperature", "Temperature", { min: 0, max: 100, step: "any" }), number("max_tokens", "Max tokens", { min: 1, step: 1 }),
    el("label", {}, "Thinking", thinking),
    el("label", { class: "wide" }, "Tools (JSON array, as in the API). You enter what they return.", tools)));
}

/** Return what is wrong with the text of the tools, or "". */
function problemOfTools(text) {
  if (!text) return "";
  try {
    const tools = JSON.parse(text);
    if (Array.isArray(tools) && tools.every((tool) => tool?.function?.name)) return "";
    return 'Expected an array of {"type": "function", "function": {"name": ...}}.';
  } catch (error) {
    return `This is not JSON: ${error.message}`;
  }
}

function entryNode(entry) {
  const { message } = entry;
  if (message.role === "user") {
    return el("article", { class: "message user" }, el("h3", {}, "You"), el("div", { class: "body" }, textOf(message)),
      // An image has its height once it is decoded.
      ...imagesOf(message).map((src) => el("img", { src, alt: "attached image", onload: scrollToAnswer })),
      el("div", { class: "actions" }, el("button", { type: "button", onclick: () => actions.edit(entry) }, "Edit")));
  }
  if (message.role === "tool") {
    return el("article", { class: "message tool" }, el("h3", {}, "Tool result"), el("div", { class: "body" }, message.content));
  }
  const view = answerView(entry);
  view.show(message);
  return view.node;
}

/** One answer on the page, drawn at most every DRAW_MILLISECONDS. */
function answerView(entry) {
  const body = el("div", { class: "body" });
  const thoughts = el("div", { class: "body" });
  const thinking = el("details", { hidden: true }, el("summary", {}, "Thinking"), thoughts);
  const calls = el("div", {});
  const facts = el("p", { class: "muted" });
  const buttons = el("div", { class: "actions", hidden: true },
    copyButton(() => text), el("button", { type: "button", onclick: () => actions.again(entry) }, "Try again"));
  const node = el("article", { class: "message assistant" }, el("h3", {}, "Model"), thinking, body, calls, facts, buttons);
  const tools = new Map();
  const started = performance.now();
  let text = "", thought = "", usage = null, first = null, reason = null, areCallsComplete = false, timer = null, waiting = null, clock = null;

  function draw() {
    timer = null;
    thoughts.textContent = thought;
    thinking.hidden = !thought;
    body.replaceChildren(...markdown(text));
    calls.replaceChildren(...[...tools.values()].map((call) => el("details", { open: true },
      el("summary", {}, `Tool call: ${call.name}`), el("pre", {}, el("code", {}, call.arguments)))));
  }

  /** Fields for what the tools returned, under the last answer. */
  function resultFields() {
    const fields = [...tools.values()].map((call) => [call, el("input", { required: true, "aria-label": `Result of ${call.name}`, placeholder: `Result of ${call.name}` })]);
    calls.append(el("form", { class: "results", onsubmit: (event) => {
      event.preventDefault();
      actions.continueWith(entry, fields.map(([call, field]) => ({ role: "tool", tool_call_id: call.id, content: field.value })));
    } }, ...fields.map(([, field]) => field), el("button", { class: "primary" }, "Send results")));
  }

  function tick() {
    const spent = `${((performance.now() - started) / 1000).toFixed(0)} s`;
    facts.textContent = first === null ? `${waiting ?? "Waiting for the first token"} · ${spent}` : `Answering · ${spent}`;
  }

  return {
    node,
    get isEmpty() { return !text && !thought && !tools.size; },
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
      timer ??= setTimeout(() => following(draw), DRAW_MILLISECONDS);
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

/** Change the page; a reader who is at its end stays there. */
function following(change) {
  const isAtEnd = innerHeight + scrollY >= document.body.scrollHeight - NEAR_END_PIXELS;
  change();
  if (isAtEnd) scrollToEnd();
}

function scrollToEnd() {
  scrollTo({ top: document.body.scrollHeight });
}

function scrollToAnswer() {
  if (state.running) scrollToEnd();
}

function textOf(message) {
  return typeof message.content === "string" ? message.content : message.content[0].text;
}

function imagesOf(message) {
  return typeof message.content === "string" ? [] : message.content.slice(1).map((part) => part.image_url.url);
}

function save() {
  const { entries, model, options } = state;
  try {
    sessionStorage.setItem(SAVED, JSON.stringify({ messages: entries.map((entry) => entry.message), model, options }));
  } catch {
    // Images may be larger than the tab's storage: then the chat is lost when the page is loaded again.
    sessionStorage.removeItem(SAVED);
  }
}

function restore() {
  const saved = JSON.parse(sessionStorage.getItem(SAVED) ?? "null");
  if (saved === null) return;
  state.entries = saved.messages.map((message) => ({ message }));
  state.model = saved.model;
  state.options = saved.options;
}
