// The panel of options beside the conversation, and the button that opens it.

import { el, iconButton } from "./dom.js";
import { icon } from "./icons.js";
import { optionFields, setOptions } from "./options.js";

/** `changed()` is called after an option was changed. */
export function optionsPanel(changed) {
  const label = el("span", {}), fields = el("div", { class: "fields" });
  const button = el("button", { type: "button", class: "quiet", "aria-expanded": "false", "aria-controls": "options", onclick: () => toggle(panel.hidden) }, icon("sliders"), label);
  const panel = el("aside", { id: "options", class: "options", "aria-label": "Options", hidden: true, onkeydown: (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    toggle(false);
  } }, el("div", { class: "head" }, el("h2", {}, "Options"), iconButton("close", "Close options", () => toggle(false))), fields);

  function toggle(isOpen) {
    panel.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
    (isOpen ? fields.querySelector("textarea") : button).focus();
  }

  return {
    panel, button,
    /** Show the options of a chat, and the model's own values. */
    show(options, model) {
      const name = () => {
        const set = setOptions(options);
        label.textContent = set.length ? String(set.length) : "";
        button.setAttribute("aria-label", set.length ? `Options: ${set.join(", ")}` : "Options");
        button.title = button.getAttribute("aria-label");
      };
      fields.replaceChildren(...optionFields(options, model?.adapter?.sampling?.values ?? {}, () => { name(); changed(); }));
      name();
    },
  };
}
