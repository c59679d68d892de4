// The sidebar: shown or folded, on phones a drawer over the page; the sections, and the choice of the theme.

import { chatList } from "./chats.js";
import { el } from "./dom.js";
import { icon } from "./icons.js";
import { menuButton } from "./menu.js";
import { showKeys } from "./shortcuts.js";
import { setBrowserValue } from "./store.js";
import { addSidebarButton } from "./topbar.js";

const THEMES = { "": ["System", "auto"], light: ["Light", "light"], dark: ["Dark", "dark"] };
const SECTION_ICONS = { "#chat": "chat", "#models": "models", "#requests": "pulse", "#cache": "layers" };
const NARROW = matchMedia("(max-width: 48rem)");
const root = document.documentElement;
const side = document.getElementById("sidebar");

/** Fill the sidebar; returns {toggle, search}. */
export function sidebar() {
  const back = el("div", { id: "drawer-back", onclick: () => close() });
  side.after(back);
  for (const link of side.querySelectorAll("nav a")) {
    link.prepend(icon(SECTION_ICONS[link.hash]));
    link.addEventListener("click", () => close());
  }
  document.getElementById("state").append(
    menuButton({ class: "quiet", "aria-label": "Theme", title: "Theme" }, [icon("auto")], () => Object.entries(THEMES).map(([theme, [label, name]]) => ({
      label, icon: name, isChecked: (root.dataset.theme ?? "") === theme, action: () => setTheme(theme),
    }))),
    el("button", { type: "button", class: "quiet", "aria-label": "Keys", title: "Keys", onclick: showKeys }, icon("keyboard")));
  const search = chatList(document.getElementById("chats"), () => close());
  addSidebarButton(toggle);
  side.addEventListener("keydown", (event) => { if (event.key === "Escape" && NARROW.matches) toggle(); });

  /** Leave the drawer of a phone. */
  function close() {
    if (root.dataset.drawer) toggle();
  }

  function toggle() {
    if (NARROW.matches) {
      if (root.dataset.drawer) delete root.dataset.drawer;
      else root.dataset.drawer = "open";
    } else {
      if (root.dataset.sidebar) delete root.dataset.sidebar;
      else root.dataset.sidebar = "folded";
      setBrowserValue("sidebar", root.dataset.sidebar ?? null);
    }
    const button = document.getElementById("sidebar-button"), isShown = NARROW.matches ? Boolean(root.dataset.drawer) : !root.dataset.sidebar;
    button.setAttribute("aria-expanded", String(isShown));
    if (NARROW.matches) (isShown ? side.querySelector("nav a") : button).focus();
  }

  return {
    toggle,
    /** Go to the search of chats. */
    search() {
      if (NARROW.matches ? !root.dataset.drawer : root.dataset.sidebar) toggle();
      search.focus();
    },
  };
}

function setTheme(theme) {
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  setBrowserValue("theme", theme || null);
}
