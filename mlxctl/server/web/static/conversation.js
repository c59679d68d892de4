// The conversation of this tab: its messages with their branches, options and model, and how it is stored.

import { chatOf, newId, setTabValue, storeChat, tabValue } from "./store.js";

const CURRENT = "mlxctl-chat-id";
const TITLE_LENGTH = 60;

// `stored` identifies the chat in the browser's storage. An entry is {message, facts, branches, branch, node}: the counts
// of an answer, and the entries from here on in each branch, null for the shown one, whose index is `branch`.
// `queue` has the questions {text, attachments} that wait for the end of the answer.
export const state = {
  stored: { id: newId(), revision: 0 }, title: null, isPinned: false, entries: [], options: {}, model: null,
  draft: "", attachments: [], queue: [], editing: null, running: null, answered: null,
};
// The branches of the next entry.
let waitingBranches = {};
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

/** Return what is attached to a question, as parts of its content. */
export function attachedTo(message) {
  return typeof message.content === "string" ? [] : message.content.slice(1);
}

export function messagesOf(entries) {
  return entries.map((entry) => entry.message);
}

/** The conversation for the server: without answers that have no text, and their questions, and without calls that have no results. */
export function messagesToSend(readsImages) {
  const messages = state.options.system ? [{ role: "system", content: state.options.system }] : [];
  for (const [index, { message }] of state.entries.entries()) {
    if (message.role === "user" && messages.at(-1)?.role === "user") messages.pop();
    const { tool_calls: calls, ...answer } = message;
    if (message.role === "user") messages.push(readsImages ? message : withoutImages(message));
    else if (message.role !== "assistant" || (calls && state.entries[index + 1]?.message.role === "tool")) messages.push(message);
    else if (answer.content) messages.push(answer);
  }
  return messages;
}

/** Whether a part is for models that read images. */
export function isSeen(part) {
  return ["image_url", "video_url"].includes(part.type);
}

function withoutImages(message) {
  const parts = attachedTo(message).filter((part) => !isSeen(part));
  return { role: "user", content: parts.length ? [message.content[0], ...parts] : textOf(message) };
}

export function addEntry(entry) {
  state.entries.push(Object.assign(entry, waitingBranches));
  waitingBranches = {};
}

/** Begin a branch at an entry: it and what follows are kept, unless it is an answer without text. */
export function beginBranch(entry) {
  const tail = state.entries.splice(state.entries.indexOf(entry)), { message, branches = [null], branch = 0 } = entry;
  state.editing = null;
  [entry.branches, entry.branch] = [];
  const isKept = message.role !== "assistant" || message.content || message.tool_calls;
  if (isKept) branches[branch] = tail;
  if (branches.length > 1 || isKept) waitingBranches = { branches: isKept ? [...branches, null] : branches, branch: isKept ? branches.length : branch };
}

/** Show another branch of an entry; `step` is 1 or -1. */
export function switchBranch(entry, step) {
  const { branches, branch } = entry, tail = state.entries.splice(state.entries.indexOf(entry));
  const next = (branch + step + branches.length) % branches.length, shown = branches[next];
  state.editing = null;
  [entry.branches, entry.branch] = [];
  branches[branch] = tail;
  branches[next] = null;
  for (const each of shown) each.node = null;
  Object.assign(shown[0], { branches, branch: next });
  state.entries.push(...shown);
}

/** Begin an empty chat with the same model and options. */
export function beginChat() {
  Object.assign(state, { stored: { id: newId(), revision: 0 }, title: null, isPinned: false, entries: [], editing: null });
  setTabValue(CURRENT, null);
}

/** Continue a copy of this chat that ends with an entry. */
export function forkChat(entry) {
  const end = state.entries.indexOf(entry) + 1, title = `${titleOf(state.title, messagesOf(state.entries))} (fork)`;
  const entries = structuredClone(state.entries.slice(0, end).map(withoutNode));
  Object.assign(state, { stored: { id: newId(), revision: 0 }, title, isPinned: false, entries, editing: null });
}

/** Continue a stored chat. */
export function continueChat({ id, revision, title, isPinned, entries, model, options }) {
  Object.assign(state, { stored: { id, revision }, title, isPinned, options, entries, editing: null });
  state.model = model ?? state.model;
  setTabValue(CURRENT, id);
}

/** Store the chat, after earlier changes; resolves to why it cannot be stored, or "". */
export function save() {
  const { stored, ...shown } = state;
  if (shown.entries.length) storing = storing.then(() => write(stored, contentOf(shown)));
  return storing;
}

/** Return the shown chat as it is stored. */
export function shownChat() {
  return { ...state.stored, ...contentOf(state) };
}

function contentOf({ title, isPinned, model, options, entries }) {
  return { title, isPinned, model, options, entries: entries.map(withoutNode) };
}

/** Return an entry without what the page shows of it. */
export function withoutNode({ node, branches, ...entry }) {
  return branches ? { ...entry, branches: branches.map((tail) => tail && tail.map(withoutNode)) } : entry;
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
