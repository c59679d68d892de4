// The stored chats in the sidebar: search, open, pin, rename, export, import and delete.

import { changeChat, changeShown, newChat, openChat } from "./chat.js";
import { readChat, saveAsJson, saveAsMarkdown } from "./chat_file.js";
import { attachedTo, beginChat, messagesOf, save, state, textOf, titleOf } from "./conversation.js";
import { el, iconButton, notice } from "./dom.js";
import { icon } from "./icons.js";
import { menuButton } from "./menu.js";
import { chatOf, deleteAllChats, deleteChat, onChatsChanged, pickFromChats, storeChat } from "./store.js";

const SEARCH_MILLISECONDS = 150;
const DAY_MILLISECONDS = 24 * 60 * 60 * 1000;

/** Fill the sidebar's part for chats and return its search field; `opened()` is called when a chat was chosen. */
export function chatList(root, opened) {
  let summaries = [], found = null, timer = null;
  const search = el("input", { type: "search", placeholder: "Search chats", "aria-label": "Search chats", oninput: () => {
    clearTimeout(timer);
    timer = setTimeout(find, SEARCH_MILLISECONDS);
  } });
  const problem = el("div", {}), list = el("div", { class: "chats" });
  const file = el("input", { type: "file", accept: ".json,application/json", hidden: true, onchange: async () => {
    await attempt(async () => {
      const chat = await readChat(file.files[0]);
      await openChat(chat);
      await save();
    });
    file.value = "";
  } });
  root.append(
    el("button", { type: "button", class: "new", onclick: () => { newChat(); opened(); } }, icon("plus"), "New chat"),
    el("div", { class: "search" }, icon("search"), search, file, menuButton({ class: "quiet", "aria-label": "All chats", title: "All chats" }, [icon("more")], () => [
      { label: "Import a chat", icon: "upload", action: () => file.click() },
      { label: "Delete all chats", icon: "trash", isDisabled: !summaries.length, action: () => {
        if (confirm("Delete all chats that this browser stores?")) attempt(async () => { await changeChat(beginChat); await deleteAllChats(); });
      } },
    ])), problem, list);

  async function attempt(action) {
    problem.replaceChildren();
    try { await action(); } catch (error) { problem.replaceChildren(notice(error?.message ?? "The browser's storage is blocked.", true)); }
  }

  /** Search titles and messages of all chats. */
  async function find() {
    const wanted = search.value.trim().toLowerCase();
    try {
      found = wanted ? new Set(await pickFromChats((chat) => (searchText(chat).includes(wanted) ? chat.id : null))) : null;
      draw();
    } catch { /* The list says that storage is blocked. */ }
  }

  async function load(id = null) {
    try {
      if (id === null) summaries = await pickFromChats(summaryOf);
      else {
        const chat = await chatOf(id);
        summaries = [...summaries.filter((each) => each.id !== id), ...(chat ? [summaryOf(chat)] : [])];
      }
      summaries.sort((one, other) => Number(other.isPinned) - Number(one.isPinned) || other.changed - one.changed);
      draw();
    } catch {
      problem.replaceChildren(notice("The browser does not let this page store chats.", true));
    }
  }

  function draw() {
    // A focused row stays the focused one.
    const focused = document.activeElement?.closest?.(".chats li")?.dataset.id;
    const shown = summaries.filter((each) => !found || found.has(each.id));
    list.replaceChildren(...[...Map.groupBy(shown, groupOf)].flatMap(([name, group]) => [el("h2", {}, name), el("ul", {}, ...group.map(item))]));
    if (!shown.length) list.append(el("p", { class: "muted" }, found ? "No chat contains this." : "No chats yet."));
    if (focused) list.querySelector(`li[data-id="${CSS.escape(focused)}"] .title`)?.focus();
  }

  function item(chat) {
    return el("li", { "data-id": chat.id, "aria-current": chat.id === state.stored.id && "true" },
      el("button", { type: "button", class: "title", dir: "auto", title: new Date(chat.changed).toLocaleString(), onclick: () => attempt(async () => {
        opened();
        if (chat.id !== state.stored.id) await openChat(await chatOf(chat.id));
        else if (location.hash.slice(1) !== "chat") location.hash = "chat";
      }) }, chat.isPinned ? icon("pin") : null, chat.title),
      menuButton({ class: "quiet", "aria-label": `Actions: ${chat.title}` }, [icon("more")], () => chatActions(chat.isPinned, () => chatOf(chat.id), attempt)));
  }

  onChatsChanged(load);
  addEventListener("chatshown", draw);
  load();
  return search;
}

/** The button of the actions of the shown chat. */
export function chatMenu(shown) {
  const attempt = async (action) => { try { await action(); } catch (error) { alert(error?.message ?? "The browser's storage is blocked."); } };
  return menuButton({ class: "quiet", "aria-label": "Actions of this chat", title: "Actions of this chat" }, [icon("more")], () => chatActions(state.isPinned, async () => shown(), attempt));
}

function chatActions(isPinned, chatNow, attempt) {
  const isShown = (chat) => chat.id === state.stored.id;
  const change = (changes) => attempt(async () => {
    const chat = await chatNow();
    await (isShown(chat) ? changeShown(changes) : storeChat({ ...chat, ...changes }));
  });
  const doing = (action) => () => attempt(async () => action(await chatNow()));
  return [
    { label: isPinned ? "Unpin" : "Pin", icon: "pin", action: () => change({ isPinned: !isPinned }) },
    { label: "Rename", icon: "edit", action: doing((chat) => {
      const title = prompt("Title of the chat", titleOf(chat.title, messagesOf(chat.entries)))?.trim();
      if (title) change({ title });
    }) },
    { label: "Save as Markdown", icon: "download", action: doing(saveAsMarkdown) },
    { label: "Save as JSON", icon: "download", action: doing(saveAsJson) },
    { label: "Delete", icon: "trash", action: doing(async (chat) => {
      if (!confirm(`Delete "${titleOf(chat.title, messagesOf(chat.entries))}"?`)) return;
      if (isShown(chat)) await changeChat(beginChat);
      await deleteChat(chat.id);
    }) },
  ];
}

function summaryOf({ id, changed, isPinned, title, entries }) {
  return { id, changed, isPinned: Boolean(isPinned), title: titleOf(title, messagesOf(entries)) ?? "Untitled" };
}

function groupOf({ isPinned, changed }) {
  const days = (new Date().setHours(24, 0, 0, 0) - changed) / DAY_MILLISECONDS;
  if (isPinned) return "Pinned";
  if (days <= 2) return days <= 1 ? "Today" : "Yesterday";
  return days <= 8 ? "Last 7 days" : "Earlier";
}

function searchText(chat) {
  const attached = (message) => attachedTo(message).map((part) => part.text ?? part.file?.filename ?? "");
  return [chat.title ?? "", ...messagesOf(chat.entries).flatMap((message) => [textOf(message), ...attached(message)])].join("\n").toLowerCase();
}
