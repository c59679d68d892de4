// Chat: the conversation with its composer, and what can be done with its messages.

import { get } from "./api.js";
import { chatMenu } from "./chats.js";
import { composer } from "./composer.js";
import { addEntry, attachedTo, beginBranch, beginChat, continueChat, forkChat, isSeen, messagesOf, restored, save, shownChat, state, switchBranch, titleOf } from "./conversation.js";
import { answerView } from "./answer.js";
import { el, notice } from "./dom.js";
import { generate } from "./generation.js";
import { modelPicker, readsImages, readsPdf } from "./model_picker.js";
import { optionsPanel } from "./options_panel.js";
import { questionNode } from "./question.js";
import { scrollToEnd } from "./scroll.js";
import { resultCard } from "./tool_call.js";
import { setTitle } from "./topbar.js";
import { transcript } from "./transcript.js";
import { setAudioModels, stopReading } from "./voice.js";
import { welcome } from "./welcome.js";

// The view that is on the page now. A running answer outlives its view.
let chat = null;
let models = [];

/** What the buttons of messages do. */
const does = {
  again(entry) {
    beginBranch(entry);
    chat.draw();
    answer();
  },
  continueAnswer: (entry) => answer(entry),
  continueWith(entry, results) {
    if (state.running || state.entries.at(-1) !== entry) return;
    entry.node = null;
    for (const message of results) addEntry({ message });
    answer();
  },
  edit(entry) {
    state.editing = entry;
    chat.composer.edit(entry);
    chat.update();
  },
  fork: (entry) => changeChat(() => forkChat(entry)).then(store),
  showBranch(entry, step) {
    switchBranch(entry, step);
    chat.draw();
    chat.update();
    store();
  },
};

export async function chatView(root) {
  const picker = modelPicker((id) => { state.model = id; store(); showOptions(); });
  const options = optionsPanel(store), unsaved = el("p", { class: "notice error", role: "alert", hidden: true });
  const messages = transcript(entryNode, () => welcome((text) => { view.composer.write(text, []); submit(); }));
  // Enter before the models are known sends the message once they are.
  let isSubmitted = false;
  const column = el("div", { class: "column" });
  const view = chat = {
    composer: composer({ picker, options }, { submit, stop: () => state.running?.abort(), takeBack, cancelEdit: () => does.edit(null) }, column),
    get model() { return picker.model; },
    draw(isOther) {
      messages.draw(isOther);
      view.name();
    },
    /** Show the title of the chat. */
    name() {
      // An answer may end while another section is shown.
      if (column.isConnected) setTitle(titleOf(state.title, messagesOf(state.entries)), state.entries.length ? chatMenu(shownChat) : null);
    },
    /** Show what the state allows: buttons, the queue, the message that is edited. */
    update() {
      view.composer.update();
      for (const button of messages.node.querySelectorAll("button.rewind")) button.disabled = state.running !== null;
      const firstReplaced = state.editing ? state.entries.indexOf(state.editing) : Infinity;
      for (const [index, entry] of state.entries.entries()) entry.node?.classList.toggle("replaced", index >= firstReplaced);
    },
    /** Show the conversation of the state. */
    begin() {
      view.draw(true);
      view.update();
      showOptions();
      state.model = picker.show(models, state.model) ?? state.model;
      // A phone shows the beginning of what to do next.
      if (state.entries.length) scrollToEnd();
      else scrollTo(0, 0);
      // The sidebar marks it.
      dispatchEvent(new Event("chatshown"));
    },
    warn(problem) {
      unsaved.textContent = problem;
      unsaved.hidden = !problem;
    },
  };
  column.append(messages.node, unsaved, view.composer.node);
  const section = el("div", { class: "chat" }, column, options.panel);
  root.append(section);
  view.composer.write(state.draft, [...state.attachments]);
  await restored;
  view.begin();
  models = (await get("/v1/models")).data;
  if (chat !== view) return;
  section.classList.toggle("speaks", setAudioModels(models));
  view.composer.recording.update();
  state.model = picker.show(models, state.model);
  showOptions();
  if (!state.model) messages.node.append(notice("This server has no model for text. Start it with: mlxctl serve --model NAME", true));
  else if (isSubmitted) submit();

  function showOptions() {
    options.show(state.options, picker.model);
  }

  function submit() {
    const text = view.composer.input.value.trim();
    const problem = problemOf(text, picker.model);
    view.composer.warn(problem);
    if (!text || problem) return;
    if (!state.model) {
      isSubmitted = true;
      return;
    }
    const question = { text, attachments: view.composer.takeFiles() }, edited = state.editing;
    view.composer.write("", []);
    if (state.running) {
      state.queue.push(question);
      view.update();
      return;
    }
    if (edited) beginBranch(edited);
    ask(question);
  }
}

/** Leave the chat for another one; what is typed stays. */
export async function changeChat(begin) {
  while (state.running) {
    state.running.abort();
    await state.answered;
  }
  const saved = save();
  stopReading();
  begin();
  chat?.begin();
  if (location.hash.slice(1) !== "chat") location.hash = "chat";
  chat?.composer.input.focus();
  await saved;
}

/** Change the shown chat's title or pin, and store it. */
export function changeShown(changes) {
  Object.assign(state, changes);
  chat?.name();
  return save();
}

export const newChat = () => changeChat(beginChat);
export const openChat = (stored) => changeChat(() => continueChat(stored));

/** Return why the attached files cannot be sent, or "". */
function problemOf(text, model) {
  if (!text) return state.attachments.length ? "Add a question about the file." : "";
  if (state.attachments.some(isSeen) && !readsImages(model)) return `${model?.id} does not read images and videos: remove them, or choose another model.`;
  if (state.attachments.some((part) => part.type === "file") && !readsPdf(model)) return "This server does not read PDF files. It does after: pip install 'mlxctl[pdf]'";
  return "";
}

async function store() {
  chat.warn(await save());
}

/** Send a question {text, attachments}. */
function ask({ text, attachments }) {
  const last = state.entries.at(-1);
  // Its fields for tool results go.
  if (last?.message.tool_calls) last.node = null;
  addEntry({ message: { role: "user", content: attachments.length ? [{ type: "text", text }, ...attachments] : text } });
  answer();
}

/** Put queued messages back into the composer, before what is typed there. */
function takeBack(items) {
  state.queue = state.queue.filter((item) => !items.includes(item));
  const texts = [...items.map((item) => item.text), chat.composer.input.value].filter(Boolean);
  chat.composer.write(texts.join("\n\n"), [...items.flatMap((item) => item.attachments), ...state.attachments]);
  chat.update();
}

/** Generate the next answer, or more of the last one. */
function answer(continued = null) {
  state.answered = generateInto(continued ?? { message: { role: "assistant", content: "" } }, Boolean(continued));
}

async function generateInto(entry, isContinued) {
  const view = answerView(entry, does), readsPictures = readsImages(chat.model);
  if (isContinued) view.show(entry.message);
  entry.node = view.node;
  if (!isContinued) addEntry(entry);
  const running = generate(entry, view, { isContinued, readsImages: readsPictures, store });
  store();
  chat.draw();
  chat.update();
  scrollToEnd();
  if (!readsPictures && state.entries.some(({ message }) => message.role === "user" && attachedTo(message).some(isSeen))) {
    view.notify(`${state.model} does not read images and videos: those of earlier messages are not sent.`);
  }
  const isComplete = await running;
  chat.draw();
  chat.update();
  if (!state.queue.length) return;
  if (isComplete && !view.asksForResults) ask(state.queue.shift());
  else takeBack([...state.queue]);
}

function entryNode(entry) {
  if (entry.message.role === "user") return questionNode(entry, does);
  if (entry.message.role === "tool") return resultCard(entry.message);
  const view = answerView(entry, does);
  view.show(entry.message);
  return view.node;
}
