// Chat: streams answers of /v1/chat/completions, with thinking, tool calls and images.

import { get, stream } from "./api.js";
import { el, notice } from "./dom.js";
import { markdown } from "./markdown.js";

const MAX_IMAGE_BYTES = 8 * 1024 * 1024;
// Drawing Markdown anew for every token would hold the page.
const DRAW_MILLISECONDS = 60;

// Kept while the page is open, so that other sections may be looked at meanwhile.
const state = { messages: [], images: [], system: "", model: null, running: null, entries: [] };

export async function chatView(root) {
  const select = el("select", { id: "model", onchange: () => { state.model = select.value; } });
  const system = el("input", { id: "system", placeholder: "System prompt", size: 36, value: state.system,
    onchange: () => { state.system = system.value; } });
  const transcript = el("section", { class: "transcript", "aria-label": "Conversation", "aria-live": "polite" }, ...state.entries);
  const input = el("textarea", { id: "prompt", "aria-label": "Message", placeholder: "Message. Enter sends, Shift-Enter adds a line.", onkeydown: keys });
  const file = el("input", { type: "file", accept: "image/png,image/jpeg,image/webp,image/gif", multiple: true, hidden: true, onchange: attach });
  const hint = el("span", { class: "muted" });
  const send = el("button", { class: "primary", type: "button", onclick: submit }, "Send");
  const stop = el("button", { type: "button", disabled: true, onclick: () => state.running?.abort() }, "Stop");
  root.append(el("div", { class: "chat" },
    el("div", { class: "toolbar" },
      el("label", { for: "model" }, "Model ", select), system,
      el("button", { type: "button", onclick: clear }, "New chat")),
    transcript,
    el("div", { class: "composer" }, input, el("div", { class: "row" }, hint, file,
      el("button", { type: "button", onclick: () => file.click() }, "Attach image"), stop, send))));
  input.focus();

  const models = (await get("/v1/models")).data.filter((model) => model.kind !== "embeddings" && model.kind !== "speech");
  select.replaceChildren(...models.map((model) => el("option", { value: model.id, disabled: model.state === "failed" }, model.id)));
  if (state.model && models.some((model) => model.id === state.model)) select.value = state.model;
  state.model = select.value || null;
  if (!state.model) transcript.append(notice("This server has no model for text.", true));

  function keys(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
    if (event.key === "Escape") state.running?.abort();
  }

  function clear() {
    state.running?.abort();
    state.messages = []; state.images = []; state.entries = [];
    transcript.replaceChildren();
    hint.textContent = "";
    input.focus();
  }

  async function attach() {
    for (const image of file.files) {
      if (image.size > MAX_IMAGE_BYTES) { hint.textContent = `${image.name} is larger than 8 MiB`; continue; }
      state.images.push(await dataUrl(image));
    }
    file.value = "";
    if (state.images.length) hint.textContent = `${state.images.length} image(s) attached`;
  }

  function show(...nodes) {
    state.entries.push(...nodes);
    transcript.append(...nodes);
    scrollTo({ top: document.body.scrollHeight });
  }

  async function submit() {
    const text = input.value.trim();
    if (!text || state.running || !state.model) return;
    input.value = "";
    hint.textContent = "";
    const images = state.images.splice(0);
    const content = images.length
      ? [{ type: "text", text }, ...images.map((url) => ({ type: "image_url", image_url: { url } }))] : text;
    state.messages.push({ role: "user", content });
    show(el("article", { class: "message user" }, el("h3", {}, "You"), el("div", { class: "body" }, text),
      ...images.map((src) => el("img", { src, alt: "attached image" }))));
    await answer();
  }

  async function answer() {
    const view = answerView();
    show(view.node);
    state.running = new AbortController();
    send.disabled = true; stop.disabled = false;
    const started = performance.now();
    try {
      const messages = [...(state.system ? [{ role: "system", content: state.system }] : []), ...state.messages];
      const body = { model: state.model, messages, stream: true, stream_options: { include_usage: true } };
      for await (const chunk of stream("/v1/chat/completions", body, state.running.signal)) view.add(chunk);
    } catch (error) {
      if (error.name !== "AbortError") view.fail(error.message);
      else view.fail("Stopped.");
    } finally {
      view.finish((performance.now() - started) / 1000);
      // Templates that keep thinking get it back, so that the next prompt begins with the same tokens.
      if (view.text) state.messages.push({ role: "assistant", content: view.text, reasoning_content: view.thought || undefined });
      else state.messages.pop();
      state.running = null;
      send.disabled = false; stop.disabled = true;
      input.focus();
    }
  }
}

/** One answer on the page, drawn at most every DRAW_MILLISECONDS. */
function answerView() {
  const body = el("div", { class: "body" });
  const thoughts = el("div", { class: "body" });
  const summary = el("summary", {}, "Thinking");
  const thinking = el("details", { hidden: true }, summary, thoughts);
  const calls = el("div", {});
  const facts = el("p", { class: "muted" }, "…");
  const node = el("article", { class: "message assistant" }, el("h3", {}, "Model"), thinking, body, calls, facts);
  const tools = new Map();
  const started = performance.now();
  let text = "", thought = "", usage = null, first = null, reason = null, timer = null;

  function draw() {
    timer = null;
    thoughts.textContent = thought;
    thinking.hidden = !thought;
    body.replaceChildren(...markdown(text));
    calls.replaceChildren(...[...tools.values()].map((call) => el("details", { open: true },
      el("summary", {}, `Tool call: ${call.name}`), el("pre", {}, el("code", {}, call.arguments)))));
  }

  return {
    node,
    get text() { return text; },
    get thought() { return thought; },
    add(chunk) {
      const choice = chunk.choices?.[0];
      const delta = choice?.delta ?? {};
      if (first === null && (delta.content || delta.reasoning_content || delta.tool_calls)) first = (performance.now() - started) / 1000;
      text += delta.content ?? "";
      thought += delta.reasoning_content ?? "";
      for (const call of delta.tool_calls ?? []) {
        const kept = tools.get(call.index) ?? { name: "", arguments: "" };
        kept.name += call.function?.name ?? "";
        kept.arguments += call.function?.arguments ?? "";
        tools.set(call.index, kept);
      }
      usage = chunk.usage ?? usage;
      reason = choice?.finish_reason ?? reason;
      timer ??= setTimeout(draw, DRAW_MILLISECONDS);
    },
    fail(message) { node.append(notice(message, true)); },
    finish(total) {
      clearTimeout(timer);
      draw();
      const parts = [];
      if (usage) {
        parts.push(`${usage.prompt_tokens} prompt tokens (${usage.prompt_tokens_details?.cached_tokens ?? 0} cached)`,
          `${usage.completion_tokens} completion tokens`);
        if (first !== null && total > first) parts.push(`${((usage.completion_tokens - 1) / (total - first)).toFixed(1)} tokens/s`);
      }
      if (first !== null) parts.push(`first token ${first.toFixed(2)} s`);
      if (reason === "length") parts.push("stopped at the length limit");
      facts.textContent = parts.join(" · ");
    },
  };
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
