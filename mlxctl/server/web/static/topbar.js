// The line above a section: the button of the sidebar, the title, and what can be done with what is shown.

import { iconButton } from "./dom.js";

const bar = document.getElementById("topbar");
const title = document.getElementById("title");

/** Show a title, or the program's name, and an element behind it. */
export function setTitle(text, action = null) {
  title.textContent = text ?? "New chat";
  document.title = [text, "mlxctl"].filter(Boolean).join(" - ");
  for (const old of bar.querySelectorAll(".titled")) old.remove();
  if (!action) return;
  action.classList.add("titled");
  bar.append(action);
}

/** Put the button that shows or hides the sidebar before the title. */
export function addSidebarButton(toggle) {
  bar.prepend(iconButton("sidebar", "Sidebar", toggle, { id: "sidebar-button", "aria-controls": "sidebar" }));
}
