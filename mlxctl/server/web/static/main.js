// The sections of the page, by the fragment of its address.

import { get } from "./api.js";
import { cacheView } from "./cache.js";
import { chatView, newChat } from "./chat.js";
import { el, notice } from "./dom.js";
import { modelsView } from "./models.js";
import { requestsView } from "./requests.js";
import { listenToKeys } from "./shortcuts.js";
import { sidebar } from "./sidebar.js";
import { setTitle } from "./topbar.js";

const VIEWS = { chat: chatView, models: modelsView, requests: requestsView, cache: cacheView };
const view = document.getElementById("view");
const status = document.getElementById("status");
let timers = [];

async function show() {
  const name = location.hash.slice(1) in VIEWS ? location.hash.slice(1) : "chat";
  timers.forEach(clearInterval);
  timers = [];
  view.replaceChildren();
  view.className = name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (name !== "chat") setTitle(`${name[0].toUpperCase()}${name.slice(1)}`);
  const every = (milliseconds, refresh) => {
    let isBusy = false;
    timers.push(setInterval(async () => {
      if (isBusy || document.hidden) return;
      isBusy = true;
      try { await refresh(); } catch { /* The status line says that the server is gone. */ }
      isBusy = false;
    }, milliseconds));
  };
  try {
    await VIEWS[name](view, every);
  } catch (error) {
    view.append(notice(error.message, true));
    if (error.status === 401) view.append(el("button", { type: "button", onclick: show }, "Enter a key"));
  }
}

async function health() {
  try {
    const found = await get("/health");
    status.textContent = `mlxctl ${found.version}: ${found.problem ?? (found.status === "ok" ? "ready" : found.status)}`;
    status.dataset.state = found.status;
  } catch (error) {
    status.textContent = error.message;
    status.dataset.state = "gone";
  }
}

addEventListener("hashchange", () => {
  // The link past the navigation stays in its section.
  if (location.hash !== "#view") show();
});
listenToKeys({ newChat, ...sidebar() });
show();
health();
setInterval(health, 5000);
