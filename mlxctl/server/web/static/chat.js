// Chat: questions and answers of /v1/chat/completions. Messages that are sent during an answer wait for its end.

import { answerView, scrollToEnd } from "./answer.js";
import { get, stream, untilLoaded } from "./api.js";
import { attachments, shown } from "./attachments.js";
import { chatsButton } from "./chats.js";
import { beginChat, continueChat, imagesOf, messagesToSend, partOf, restored, save, state, textOf, titleOf } from "./conversation.js";
import { el, notice } from "./dom.js";
import { bodyOf, optionFields } from "./options.js";
import { microphone, setAudioModels, stopReading } from "./voice.js";

// A page that is closed during an answer loses at most what came in this time.
const SAVE_MILLISECONDS = 2000;

let models = [];
// The view that is on the page now. A running answer outlives its view.
let chat = null;

export async function chatView(root) {
  const select = el("select", { id: "model", onchange: () => { state.model = select.value; store(); view.update(); } });
  const transcript = el("section", { class: "transcript", "aria-label": "Conversation", "aria-live": "polite" });
  const input = el("textarea", { id: "prompt", "aria-label": "Message", dir: "auto", placeholder: "Message. Enter sends, Shift-Enter adds a line.", onkeydown: keys, oninput: grow });
  const attached = attachments(state.images, input);
  const recording = microphone((text) => chat.insert(text), attached.problem);
  const queued = el("ul", { class: "queue", "aria-label": "Queue" });
  const editing = el("p", { class: "muted", hidden: true }, "Sending replaces this message and all after it. ",
    el("button", { type: "button", onclick: () => view.edit(null) }, "Cancel"));
  const unsaved = el("p", { class: "notice error", role: "alert", hidden: true });
  // Enter before the models are known sends the message once they are.
  let isSubmitted = false;
  const send = el("button", { class: "primary", type: "button", onclick: submit }, "Send");
  const stop = el("button", { type: "button", onclick: () => state.running?.abort() }, "Stop");
  const options = el("div", { class: "whole" });
  const section = el("div", { class: "chat" },
    el("div", { class: "toolbar" }, el("label", { for: "model" }, "Model ", select),
      el("button", { type: "button", onclick: () => change(beginChat) }, "New chat"),
      chatsButton((stored) => change(() => continueChat(stored)), () => change(beginChat)), options),
    transcript, unsaved,
    el("div", { class: "composer" }, queued, editing, attached.previews, input,
      el("div", { class: "row" }, attached.problem, attached.file, attached.button, recording.button, stop, send)));
  root.append(section);

  const view = {
    draw() {
      transcript.replaceChildren(...state.entries.map((entry) => entry.node ??= entryNode(entry)));
      if (!state.entries.length) transcript.append(el("p", { class: "muted" }, "Ask something. Chats are stored in this browser."));
      document.title = [titleOf(state.title, state.entries.map((entry) => entry.message)), "mlxctl"].filter(Boolean).join(" - ");
    },
    /** Show what the state allows: buttons, the queue, the message that is edited. */
    update() {
      // A focused button that is disabled or removed leaves the focus nowhere; in the field Escape stops.
      const active = document.activeElement;
      const isFree = [document.body, send, stop].includes(active) || (active === input && !input.value);
      send.textContent = state.running ? "Queue" : "Send";
      stop.disabled = state.running === null;
      for (const button of transcript.querySelectorAll("button.rewind")) button.disabled = state.running !== null;
      queued.replaceChildren(...state.queue.map((item) => el("li", {}, el("span", { dir: "auto" }, `Queued: ${item.text}`),
        el("button", { type: "button", onclick: () => takeBack([item]) }, "Take back"))));
      editing.hidden = state.editing === null;
      const firstReplaced = state.editing ? state.entries.indexOf(state.editing) : Infinity;
      for (const [index, entry] of state.entries.entries()) entry.node?.classList.toggle("replaced", index >= firstReplaced);
      if (isFree) (transcript.querySelector(".results input") ?? input).focus({ preventScroll: true });
    },
    /** Put a message into the input; it is replaced when it is sent. None leaves it as it is. */
    edit(entry) {
      state.editing = entry;
      view.write(entry ? textOf(entry.message) : "", entry ? imagesOf(entry.message) : []);
      view.update();
    },
    write(text, images) {
      input.value = text;
      attached.set(images);
      grow();
      input.focus();
    },
    get text() { return input.value; },
    insert(text) { view.write([input.value.trimEnd(), text].filter(Boolean).join(" "), [...state.images]); },
    warn(problem) {
      unsaved.textContent = problem;
      unsaved.hidden = !problem;
    },
  };
  chat = view;
  view.draw();
  view.write(state.draft, [...state.images]);
  view.update();
  await restored;
  view.draw();
  view.update();
  showOptions();

  const served = (await get("/v1/models")).data;
  section.classList.toggle("speaks", setAudioModels(served));
  recording.update();
  models = served.filter((model) => ["text", "vision", "unknown"].includes(model.kind));
  select.replaceChildren(...models.map((model) => el("option", { value: model.id, disabled: model.state === "failed" }, model.id)));
  showModel();
  if (!state.model) transcript.append(notice("This server has no model for text. Start it with: mlxctl serve --model NAME", true));
  else if (isSubmitted) submit();

  function showOptions() {
    options.replaceChildren(optionFields(state.options, store));
  }

  function showModel() {
    if (models.some((model) => model.id === state.model)) select.value = state.model;
    state.model = select.value || null;
  }

  function keys(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
    if (event.key === "Escape" && state.running) state.running.abort();
    else if (event.key === "Escape" && state.editing) view.edit(null);
    if (event.key === "ArrowUp" && !input.value && state.queue.length) { event.preventDefault(); takeBack(state.queue.slice(-1)); }
  }

  function grow() {
    state.draft = input.value;
    input.style.height = "auto";
    input.style.height = `${input.scrollHeight + 2}px`;
  }

  /** Leave the chat for another one; what is typed stays. */
  async function change(begin) {
    while (state.running) {
      state.running.abort();
      await state.answered;
    }
    const saved = save();
    stopReading();
    begin();
    view.draw();
    view.update();
    showOptions();
    showModel();
    scrollToEnd();
    input.focus();
    await saved;
  }

  function submit() {
    const text = input.value.trim();
    if (!text && state.images.length) attached.problem.textContent = "Add a question about the image.";
    if (!text) return;
    if (!state.model) {
      isSubmitted = true;
      return;
    }
    if (state.images.length && !readsImages()) {
      attached.problem.textContent = `${state.model} does not read images: remove them, or choose another model.`;
      return;
    }
    const question = { text, images: attached.take() };
    const edited = state.editing;
    view.write("", []);
    if (state.running) {
      state.queue.push(question);
      view.update();
      return;
    }
    if (edited) rewind(edited);
    ask(question);
  }
}

function readsImages() {
  const model = models.find((each) => each.id === state.model);
  return model?.adapter?.takes_images ?? model?.kind !== "text";
}

async function store() {
  const problem = await save();
  chat.warn(problem);
}

/** Remove an entry and everything after it. */
function rewind(entry) {
  state.entries.length = state.entries.indexOf(entry);
  state.editing = null;
  chat.draw();
}

/** Generate an answer anew. */
function again(entry) {
  const numLater = state.entries.length - state.entries.indexOf(entry) - 1;
  if (numLater && !confirm(`This also removes what comes after this answer (${numLater} messages).`)) return;
  rewind(entry);
  state.answered = answer();
}

/** Send what the tools of the last answer returned; `results` are {role: "tool"} messages. */
function continueWith(entry, results) {
  if (state.running || state.entries.at(-1) !== entry) return;
  entry.node = null;
  state.entries.push(...results.map((message) => ({ message })));
  state.answered = answer();
}

/** Send a question {text, images}. */
function ask({ text, images }) {
  const last = state.entries.at(-1);
  // Its fields for tool results go.
  if (last?.message.tool_calls) last.node = null;
  const content = images.length
    ? [{ type: "text", text }, ...images.map(partOf)] : text;
  state.entries.push({ message: { role: "user", content } });
  state.answered = answer();
}

/** Put queued messages back into the input, before what is typed there. */
function takeBack(items) {
  state.queue = state.queue.filter((item) => !items.includes(item));
  const texts = [...items.map((item) => item.text), chat.text].filter(Boolean);
  chat.write(texts.join("\n\n"), [...items.flatMap((item) => item.images), ...state.images]);
  chat.update();
}

async function answer() {
  const entry = { message: { role: "assistant", content: "" } };
  const view = answerView(entry, { again, continueWith });
  const messages = messagesToSend(readsImages());
  entry.node = view.node;
  state.entries.push(entry);
  store();
  chat.draw();
  scrollToEnd();
  const running = state.running = new AbortController();
  chat.update();
  view.start();
  if (!readsImages() && state.entries.some(({ message }) => message.role === "user" && imagesOf(message).length)) {
    view.notify(`${state.model} does not read images: those of earlier messages are not sent.`);
  }
  const saver = setInterval(() => { entry.message = view.message; store(); }, SAVE_MILLISECONDS);
  let isComplete = false;
  try {
    const body = { model: state.model, stream: true, stream_options: { include_usage: true }, ...bodyOf(state.options), messages };
    await receive(view, body, running.signal);
    isComplete = true;
  } catch (error) {
    if (error.name === "AbortError") view.notify("Stopped.");
    else view.notify(view.isEmpty ? error.message : `This answer is incomplete: ${error.message}`, true);
  } finally {
    clearInterval(saver);
    view.finish();
    entry.message = view.message;
    state.running = null;
    store();
    chat.update();
  }
  if (!state.queue.length) return;
  if (isComplete && !view.asksForResults) ask(state.queue.shift());
  else takeBack([...state.queue]);
}

/** Add the chunks of an answer to `view`; waits while the server loads its model. */
function receive(view, body, signal) {
  return untilLoaded(async () => {
    for await (const chunk of stream("/v1/chat/completions", body, signal)) view.add(chunk);
  }, view.wait, signal);
}

function entryNode(entry) {
  const { message } = entry;
  if (message.role === "user") {
    return el("article", { class: "message user" }, el("h3", {}, "You"), el("div", { class: "body", dir: "auto" }, textOf(message)),
      // An image has its height once it is decoded.
      ...imagesOf(message).map((src) => shown(src, "attached image", { onload: () => { if (state.running) scrollToEnd(); } })),
      el("div", { class: "actions" }, el("button", { type: "button", class: "rewind", onclick: () => chat.edit(entry) }, "Edit")));
  }
  if (message.role === "tool") {
    return el("article", { class: "message tool" }, el("h3", {}, "Tool result"), el("div", { class: "body", dir: "auto" }, message.content));
  }
  const view = answerView(entry, { again, continueWith });
  view.show(message);
  return view.node;
}
