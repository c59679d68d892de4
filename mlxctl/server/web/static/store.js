// What this browser keeps: chats in IndexedDB, and a few values. Blocked storage leaves the values in memory.

const CHATS = "chats";
const memory = new Map();
const listeners = [];
// Other tabs of this page.
const tabs = "BroadcastChannel" in window ? new BroadcastChannel("mlxctl-chats") : null;
if (tabs) tabs.onmessage = (event) => listeners.forEach((listener) => listener(event.data));
let opened = null;

/** A value of this tab, kept when the page is loaded again. */
export function tabValue(name) {
  try { return sessionStorage.getItem(name); } catch { return memory.get(name) ?? null; }
}

/** Set a value of this tab; null removes it. */
export function setTabValue(name, value) {
  try {
    if (value === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, value);
  } catch {
    memory.set(name, value);
  }
}

/** Set a value of this browser; null removes it. load.js reads it. */
export function setBrowserValue(name, value) {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch { /* It is lost with the page. */ }
}

/** Call `listener(id)` after a chat was stored or deleted, here or in another tab; the id of all chats is null. */
export function onChatsChanged(listener) {
  listeners.push(listener);
}

function announce(id) {
  tabs?.postMessage(id);
  listeners.forEach((listener) => listener(id));
}

/** Return what `pick` returns for each chat, without null. One chat is in memory at a time. */
export async function pickFromChats(pick) {
  const picked = [];
  await inStore("readonly", (store) => {
    store.openCursor().onsuccess = ({ target: { result: cursor } }) => {
      if (!cursor) return;
      const value = pick(cursor.value);
      if (value !== null) picked.push(value);
      cursor.continue();
    };
  });
  return picked;
}

/** Return a chat, or undefined. */
export function chatOf(id) {
  return inStore("readonly", (store) => store.get(id));
}

/** Store a chat and return it with its new revision. Another tab's later version stays: this one becomes a copy. */
export async function storeChat(chat) {
  const stored = await inStore("readwrite", (store, done) => {
    const found = store.get(chat.id);
    found.onsuccess = () => {
      const isOther = found.result && found.result.revision !== chat.revision;
      const next = { ...chat, id: isOther ? newId() : chat.id, revision: chat.revision + 1, changed: chat.changed ?? Date.now() };
      store.put(next).onsuccess = () => done(next);
    };
  });
  announce(stored.id);
  return stored;
}

export async function deleteChat(id) {
  await inStore("readwrite", (store) => store.delete(id));
  announce(id);
}

export async function deleteAllChats() {
  await inStore("readwrite", (store) => store.clear());
  announce(null);
}

/** An identifier that no other tab has. Pages without TLS have no crypto.randomUUID. */
export function newId() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Run `use` in a transaction; resolves to its request's result, or to what it passes to `done`. */
async function inStore(mode, use) {
  opened ??= openDatabase();
  const database = await opened;
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(CHATS, mode);
    let result;
    const request = use(transaction.objectStore(CHATS), (value) => { result = value; });
    transaction.oncomplete = () => resolve(result ?? request?.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

function openDatabase() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open("mlxctl", 2);
    request.onupgradeneeded = ({ oldVersion }) => {
      if (oldVersion === 0) request.result.createObjectStore(CHATS, { keyPath: "id" });
      else request.transaction.objectStore(CHATS).openCursor().onsuccess = ({ target: { result: cursor } }) => {
        if (!cursor) return;
        // Chats without branches.
        const { messages, ...chat } = cursor.value;
        cursor.update({ ...chat, entries: messages.map((message) => ({ message })) });
        cursor.continue();
      };
    };
    request.onsuccess = () => {
      // The user deleted the data of this page.
      request.result.onclose = () => { opened = null; };
      resolve(request.result);
    };
    request.onerror = () => reject(request.error);
  });
}
