// A button that opens a list of actions over the page, for the pointer and for arrow keys.

import { el } from "./dom.js";
import { icon } from "./icons.js";

const GAP = 6;

/**
 * Return a button; `items()` returns what it opens: {label, icon, note, isChecked, isDisabled, action}.
 */
export function menuButton(attributes, content, items) {
  const button = el("button", { type: "button", "aria-haspopup": "menu", "aria-expanded": "false", ...attributes, onclick: open }, ...content);

  function open() {
    const list = el("div", { class: "menu", role: "menu", popover: "auto", "aria-label": attributes["aria-label"] ?? null, onkeydown: move, ontoggle: (event) => {
      button.setAttribute("aria-expanded", String(event.newState === "open"));
      if (event.newState !== "closed") return;
      if (list.contains(document.activeElement) || document.activeElement === document.body) button.focus();
      list.remove();
    } }, ...items().map((item) => menuItem(item, () => list.hidePopover())));
    // Beside the button, for screen readers: within its part of the page.
    button.closest("main, aside, header").append(list);
    list.showPopover();
    place(list, button.getBoundingClientRect());
    (list.querySelector("[aria-checked=true]") ?? list.firstElementChild)?.focus();
  }

  return button;
}

function menuItem({ label, icon: name, note, isChecked, isDisabled, action }, close) {
  const isChoice = isChecked !== undefined;
  return el("button", { type: "button", role: isChoice ? "menuitemradio" : "menuitem", "aria-checked": isChoice && String(isChecked),
    disabled: isDisabled, tabindex: "-1", onclick: () => { close(); action(); } },
    name ? icon(name) : null, el("span", {}, el("span", { class: "label" }, label), note ? el("small", {}, note) : null), isChecked ? icon("check") : null);
}

/** Below the button, or above it where there is more room; inside of the window. */
function place(list, button) {
  const { width, height } = list.getBoundingClientRect();
  const isBelow = button.bottom + GAP + height <= innerHeight || button.top < innerHeight - button.bottom;
  list.style.left = `${Math.max(GAP, Math.min(button.left, innerWidth - width - GAP))}px`;
  list.style.top = `${Math.max(GAP, isBelow ? button.bottom + GAP : button.top - GAP - height)}px`;
}

function move(event) {
  const items = [...event.currentTarget.querySelectorAll("button:enabled")], at = items.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
  if (event.key === "Tab") event.currentTarget.hidePopover();
  if (to === undefined) return;
  event.preventDefault();
  items.at(to % items.length)?.focus();
}
