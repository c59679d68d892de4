// What this browser keeps: chats in IndexedDB, and a few values of the tab. Blocked storage leaves the values in memory.

const CHATS = "chats";
const memory = new Map();
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

/** Return all chats, the last changed first. */
export async function allChats() {
  const chats = await inStore("readonly", (store) => store.getAll());
  return chats.sort((one, other) => other.changed - one.changed);
}

/** Return a chat, or undefined. */
export function chatOf(id) {
  return inStore("readonly", (store) => store.get(id));
}

/** Store a chat and return it with its new revision. Another tab's later version stays: this one becomes a copy. */
export function storeChat(chat) {
  return inStore("readwrite", (store, done) => {
    const found = store.get(chat.id);
    found.onsuccess = () => {
      const isOther = found.result && found.result.revision !== chat.revision;
      const stored = { ...chat, id: isOther ? newId() : chat.id, revision: chat.revision + 1, changed: Date.now() };
      store.put(stored).onsuccess = () => done(stored);
    };
  });
}

export function deleteChat(id) {
  return inStore("readwrite", (store) => store.delete(id));
}

export function deleteAllChats() {
  return inStore("readwrite", (store) => store.clear());
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
    const request = indexedDB.open("mlxctl", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(CHATS, { keyPath: "id" });
    request.onsuccess = () => {
      // The user deleted the data of this page.
      request.result.onclose = () => { opened = null; };
      resolve(request.result);
    };
    request.onerror = () => reject(request.error);
  });
}
