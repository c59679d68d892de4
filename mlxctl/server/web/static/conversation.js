// The conversation of this tab: its messages, options and model, and how it is stored.

import { chatOf, newId, setTabValue, storeChat, tabValue } from "./store.js";

const CURRENT = "mlxctl-chat-id";
const TITLE_LENGTH = 60;

// `stored` identifies the chat in the browser's storage. An entry is {message, node}. `queue` has the messages {text, images} that wait for the end of the answer.
export const state = {
  stored: { id: newId(), revision: 0 }, title: null, entries: [], options: {}, model: null,
  draft: "", images: [], queue: [], editing: null, running: null, answered: null,
};
let storing = Promise.resolve("");
export const restored = restore();

/** Return the title: the given one, or the beginning of the first question. */
export function titleOf(title, messages) {
  const first = messages.find((message) => message.role === "user");
  return title ?? (first ? textOf(first).replace(/\s+/g, " ").slice(0, TITLE_LENGTH) : null);
}

export function textOf(message) {
  return typeof message.content === "string" ? message.content : message.content[0].text;
}

export function imagesOf(message) {
  return typeof message.content === "string" ? [] : message.content.slice(1).map((part) => (part.image_url ?? part.video_url).url);
}

/** The content part of a data URL. */
export function partOf(url) {
  return url.startsWith("data:video/") ? { type: "video_url", video_url: { url } } : { type: "image_url", image_url: { url } };
}

/** The conversation for the server: without answers that have no text, and their questions, and without calls that have no results. */
export function messagesToSend(readsImages) {
  const messages = state.options.system ? [{ role: "system", content: state.options.system }] : [];
  for (const [index, { message }] of state.entries.entries()) {
    if (message.role === "user" && messages.at(-1)?.role === "user") messages.pop();
    const { tool_calls: calls, ...answer } = message;
    if (message.role === "user" && !readsImages) messages.push({ role: "user", content: textOf(message) });
    else if (message.role !== "assistant" || (calls && state.entries[index + 1]?.message.role === "tool")) messages.push(message);
    else if (answer.content) messages.push(answer);
  }
  return messages;
}

/** Begin an empty chat with the same model and options. */
export function beginChat() {
  Object.assign(state, { stored: { id: newId(), revision: 0 }, title: null, entries: [], editing: null });
  setTabValue(CURRENT, null);
}

/** Continue a stored chat. */
export function continueChat({ id, revision, title, messages, model, options }) {
  const entries = messages.map((message) => ({ message }));
  Object.assign(state, { stored: { id, revision }, title, options, entries, editing: null });
  state.model = model ?? state.model;
  setTabValue(CURRENT, id);
}

/** Store the chat, after earlier changes; resolves to why it cannot be stored, or "". */
export function save() {
  const { stored, entries, title, model, options } = state;
  if (entries.length) storing = storing.then(() => write(stored, { title, model, options, messages: entries.map((entry) => entry.message) }));
  return storing;
}

async function write(stored, content) {
  try {
    const { id, revision } = await storeChat({ ...stored, ...content });
    Object.assign(stored, { id, revision });
    if (state.stored === stored) setTabValue(CURRENT, id);
    return "";
  } catch (error) {
    return error?.name === "QuotaExceededError"
      ? "This chat is not saved: the browser's storage is full. Delete chats that you do not need."
      : "This chat is not saved: the browser does not let this page store data.";
  }
}

async function restore() {
  const id = tabValue(CURRENT);
  try {
    const chat = id && await chatOf(id);
    if (chat) continueChat(chat);
  } catch {
    // Storing fails as well, and says so.
  }
}
