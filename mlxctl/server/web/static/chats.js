// The list of stored chats: search, open, rename, export and delete.

import { imagesOf, save, state, textOf, titleOf } from "./conversation.js";
import { el, notice } from "./dom.js";
import { allChats, deleteAllChats, deleteChat, storeChat } from "./store.js";

const AUTHORS = { user: "You", assistant: "Model", tool: "Tool result" };

/** A button that opens the list; `open(chat)` continues a chat, `close()` leaves a deleted one. */
export function chatsButton(open, close) {
  const search = el("input", { type: "search", placeholder: "Search titles and messages", "aria-label": "Search chats", oninput: draw });
  const list = el("ul", { class: "chats" });
  const deleteAll = el("button", { type: "button", disabled: true, onclick: () => {
    if (confirm("Delete all chats that this browser stores?")) change(async () => { await close(); await deleteAllChats(); });
  } }, "Delete all");
  const dialog = el("dialog", { class: "wide", "aria-labelledby": "chats-title", onclose: () => dialog.remove() },
    el("h2", { id: "chats-title" }, "Chats"), search, list,
    el("menu", {}, deleteAll, el("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  let chats = [];

  async function load() {
    try {
      chats = await allChats();
      draw();
    } catch {
      list.replaceChildren(notice("The browser does not let this page store chats.", true));
    }
  }

  async function change(action) {
    try {
      await action();
    } catch (error) {
      list.replaceChildren(notice(`The browser did not change the chats: ${error?.message ?? "storage is blocked"}`, true));
      return;
    }
    search.value = "";
    await load();
    search.focus();
  }

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const found = chats.filter((chat) => searchText(chat).includes(wanted));
    deleteAll.disabled = chats.length === 0;
    list.replaceChildren(...found.map(item));
    if (!found.length) list.append(el("li", { class: "muted" }, wanted ? "No chat contains this." : "No chats yet."));
  }

  function item(chat) {
    const title = titleOf(chat.title, chat.messages) ?? "Untitled";
    const small = (label, onclick) => el("button", { type: "button", "aria-label": `${label}: ${title}`, onclick }, label);
    return el("li", { "aria-current": chat.id === state.stored.id && "true" },
      el("button", { type: "button", class: "title", dir: "auto", onclick: () => {
        dialog.close();
        if (chat.id !== state.stored.id) open(chat);
      } }, title),
      el("span", { class: "muted" }, new Date(chat.changed).toLocaleString()),
      el("span", { class: "actions" },
        small("Rename", () => {
          const name = prompt("Title of the chat", title)?.trim();
          if (name) change(() => rename(chat, name));
        }),
        small("Markdown", () => download(`${fileName(title)}.md`, markdownOf(chat, title))),
        small("JSON", () => download(`${fileName(title)}.json`, jsonOf(chat))),
        small("Delete", () => {
          if (!confirm(`Delete "${title}"?`)) return;
          change(async () => {
            if (chat.id === state.stored.id) await close();
            await deleteChat(chat.id);
          });
        })));
  }

  return el("button", { type: "button", onclick: () => {
    document.body.append(dialog);
    search.value = "";
    load();
    dialog.showModal();
  } }, "Chats");
}

async function rename(chat, title) {
  if (chat.id !== state.stored.id) {
    await storeChat({ ...chat, title });
    return;
  }
  state.title = title;
  await save();
}

function searchText(chat) {
  return [chat.title ?? "", ...chat.messages.map(textOf)].join("\n").toLowerCase();
}

function fileName(title) {
  return title.replace(/[^\p{L}\p{N} ._-]+/gu, "").trim().slice(0, 60) || "chat";
}

/** The chat as OpenAI messages; `/load` of `mlxctl chat` opens it. */
function jsonOf({ model, messages, options }) {
  const system = options.system ? [{ role: "system", content: options.system }] : [];
  return `${JSON.stringify({ model, messages: [...system, ...messages] }, null, 2)}\n`;
}

function markdownOf({ messages, options }, title) {
  const parts = [`# ${title}`];
  if (options.system) parts.push("## System prompt", options.system);
  for (const message of messages) {
    parts.push(`## ${AUTHORS[message.role]}`, textOf(message), ...imagesOf(message).map(() => "(image)"));
    for (const { function: called } of message.tool_calls ?? []) parts.push(`Tool call \`${called.name}\`:`, `\`\`\`json\n${called.arguments}\n\`\`\``);
  }
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

function download(name, text) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}
