// Chats as files: JSON, which this page and `/load` of `mlxctl chat` open, and Markdown to read.

import { attachedTo, messagesOf, textOf, titleOf, withoutNode } from "./conversation.js";
import { download } from "./dom.js";
import { newId } from "./store.js";

const AUTHORS = { user: "You", assistant: "Model", tool: "Tool result" };
const MAX_CHAT_BYTES = 100 * 1024 * 1024;

export function saveAsJson(chat) {
  download(`${fileName(chat)}.json`, jsonOf(chat));
}

export function saveAsMarkdown(chat) {
  download(`${fileName(chat)}.md`, markdownOf(chat));
}

/** Return the chat of a JSON file, new in this browser. Throws an Error whose message is for the user. */
export async function readChat(file) {
  if (file.size > MAX_CHAT_BYTES) throw new Error(`${file.name} is larger than 100 MB.`);
  let read;
  try { read = JSON.parse(await file.text()); } catch { throw new Error(`${file.name} is not JSON.`); }
  const messages = Array.isArray(read) ? read : read?.messages;
  const chat = read?.mlxctl ?? { title: null, options: systemOf(messages), entries: withoutSystem(messages) };
  if (!chat.entries?.length || !areEntries(chat.entries)) throw new Error(`${file.name} has no chat: expected {"messages": [{"role": ..., "content": ...}]}.`);
  return { id: newId(), revision: 0, title: textOrNull(chat.title), isPinned: false, model: textOrNull(read.model), options: { ...chat.options }, entries: chat.entries.map(withoutNode) };
}

function textOrNull(value) {
  return typeof value === "string" ? value : null;
}

function systemOf(messages) {
  const system = messages?.[0]?.role === "system" ? messages[0].content : null;
  return typeof system === "string" ? { system } : {};
}

function withoutSystem(messages) {
  return messages?.filter?.((message) => message?.role !== "system").map((message) => ({ message: { ...message, content: message.content ?? "" } }));
}

/** Whether the page can show the entries and those of their branches. */
function areEntries(entries) {
  return Array.isArray(entries) && entries.every((entry) => isMessage(entry?.message)
    && (entry.branches ?? []).every((tail, index) => (index === entry.branch ? tail === null : tail?.length && areEntries(tail))));
}

function isMessage(message) {
  const { role, content, tool_calls: calls = [] } = message ?? {};
  const isContent = typeof content === "string" || (role === "user" && Array.isArray(content) && typeof content[0]?.text === "string" && content.every(isPart));
  return role in AUTHORS && isContent && Array.isArray(calls) && calls.every((call) => typeof call?.function?.name === "string" && typeof call.function.arguments === "string");
}

function isPart(part) {
  // No image of another server: showing the chat must not tell that server.
  if (part?.type === "image_url") return /^data:image\//.test(part.image_url?.url);
  if (part?.type === "video_url") return /^data:video\//.test(part.video_url?.url);
  return part?.type === "file" ? typeof part.file?.file_data === "string" : typeof part?.text === "string";
}

function fileName({ title, entries }) {
  return titleOf(title, messagesOf(entries))?.replace(/[^\p{L}\p{N} ._-]+/gu, "").trim().slice(0, 60) || "chat";
}

function jsonOf({ model, title, entries, options }) {
  const system = options.system ? [{ role: "system", content: options.system }] : [];
  return `${JSON.stringify({ model, messages: [...system, ...messagesOf(entries)], mlxctl: { title, options, entries } }, null, 2)}\n`;
}

function markdownOf({ title, entries, options }) {
  const messages = messagesOf(entries), parts = [`# ${titleOf(title, messages) ?? "Chat"}`];
  if (options.system) parts.push("## System prompt", options.system);
  for (const message of messages) {
    parts.push(`## ${AUTHORS[message.role]}`, textOf(message), ...attachedTo(message).map((part) => part.text ?? `(${part.file?.filename ?? "image"})`));
    for (const { function: called } of message.tool_calls ?? []) parts.push(`Tool call \`${called.name}\`:`, `\`\`\`json\n${called.arguments}\n\`\`\``);
  }
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}
