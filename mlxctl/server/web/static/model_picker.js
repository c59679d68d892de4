// The model that answers: a button with its name, which lists the served ones with context and memory.

import { count, el, size } from "./dom.js";
import { icon } from "./icons.js";
import { menuButton } from "./menu.js";

const KINDS = ["text", "vision", "unknown"];

/** `changed(id)` is called when another model is chosen. */
export function modelPicker(changed) {
  const name = el("span", { class: "name" }), facts = el("small", {});
  let models = [], chosen = null;
  const button = menuButton({ id: "model", class: "quiet picker", disabled: true }, [name, facts, icon("chevron")], () => models.map((model) => ({
    label: model.id, note: factsOf(model), isChecked: model === chosen, isDisabled: model.state === "failed", action: () => { choose(model); changed(model.id); },
  })));

  function choose(model) {
    chosen = model;
    name.textContent = model?.id ?? "No model";
    facts.textContent = model ? [shortCount(model.max_model_len), size(model.size_bytes)].filter(Boolean).join(" · ") : "";
    button.disabled = models.length === 0;
    button.title = model ? `${model.id}: ${factsOf(model)}` : "";
  }

  return {
    button,
    /** Show the served models for text, with the one of this name if there is such a one; returns the chosen name. */
    show(served, wanted) {
      models = served.filter((model) => KINDS.includes(model.kind));
      choose(models.find((model) => model.id === wanted) ?? models.find((model) => model.state !== "failed") ?? null);
      return chosen?.id ?? null;
    },
    get model() { return chosen; },
  };
}

export function readsImages(model) {
  return model?.adapter?.takes_images ?? model?.kind !== "text";
}

export function readsPdf(model) {
  return model?.capabilities?.pdf_input?.supported ?? true;
}

/** Where a model is, or what it does here. */
export function stateOf(model) {
  if (model.remote) return `on ${model.remote}`;
  return model.problem ? `${model.state}: ${model.problem}` : model.state.replace("_", " ");
}

function factsOf(model) {
  return [
    model.max_model_len && `${count(model.max_model_len)} tokens of context`, size(model.size_bytes), readsImages(model) && "images",
    stateOf(model),
  ].filter(Boolean).join(" · ");
}

/** 32768 -> "32k" tokens of context. */
function shortCount(number) {
  return number && (number < 1024 ? String(number) : `${Math.floor(number / 1024)}k`);
}
