// Options of the chat: system prompt, sampling, thinking and tools, under the names that the API has for them.

import { el } from "./dom.js";

const NUMBERS = {
  temperature: ["Temperature", { min: 0, max: 100, step: "any" }],
  top_p: ["Top p", { min: 0, max: 1, step: "any" }],
  top_k: ["Top k", { min: 0, step: 1 }],
  min_p: ["Min p", { min: 0, max: 1, step: "any" }],
  repetition_penalty: ["Repetition penalty", { min: 0.01, step: "any" }],
  presence_penalty: ["Presence penalty", { min: -2, max: 2, step: "any" }],
  seed: ["Seed", { min: 0, step: 1 }],
  max_tokens: ["Max tokens", { min: 1, step: 1 }],
};
const THINKING = { "": "Model default", on: "On", off: "Off" };

/** Return the fields of a request's body for `options`. */
export function bodyOf(options) {
  return {
    ...Object.fromEntries(Object.keys(NUMBERS).filter((name) => options[name] !== undefined).map((name) => [name, options[name]])),
    ...(options.thinking && { chat_template_kwargs: { enable_thinking: options.thinking === "on" } }),
    ...(options.tools && { tools: JSON.parse(options.tools) }),
  };
}

/** Return the names of the options that are set, as "top p 0.9". */
export function setOptions(options) {
  const numbers = Object.entries(NUMBERS).filter(([name]) => options[name] !== undefined).map(([name, [label]]) => `${label.toLowerCase()} ${options[name]}`);
  return [options.system && "system prompt", ...numbers, options.thinking && `thinking ${options.thinking}`, options.tools && "tools"].filter(Boolean);
}

/** The fields for `options`; `defaults` are the values of the model. */
export function optionFields(options, defaults, changed) {
  const change = (name, value) => {
    if (value === undefined) delete options[name];
    else options[name] = value;
    changed();
  };
  const numbers = Object.entries(NUMBERS).map(([name, [label, limits]]) => {
    const field = el("input", { type: "number", placeholder: defaults[name] ?? "default", value: options[name], ...limits, onchange: () => {
      if (field.reportValidity()) change(name, field.value === "" ? undefined : Number(field.value));
    } });
    return el("label", {}, label, field);
  });
  const system = el("textarea", { id: "system", rows: 5, dir: "auto", placeholder: "You are a helpful assistant.", onchange: () => change("system", system.value.trim() || undefined) }, options.system ?? "");
  const thinking = el("select", { onchange: () => change("thinking", thinking.value || undefined) },
    ...Object.entries(THINKING).map(([value, label]) => el("option", { value, selected: (options.thinking ?? "") === value }, label)));
  const tools = el("textarea", { id: "tools", rows: 4, spellcheck: "false",
    placeholder: '[{"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}]',
    oninput: () => tools.setCustomValidity(""),
    onchange: () => {
      tools.setCustomValidity(problemOfTools(tools.value.trim()));
      if (tools.reportValidity()) change("tools", tools.value.trim() || undefined);
    } }, options.tools ?? "");
  return [
    el("label", {}, "System prompt", system),
    el("fieldset", {}, el("legend", {}, "Sampling"), el("div", { class: "pairs" }, ...numbers)),
    el("label", {}, "Thinking", thinking),
    el("label", {}, "Tools (JSON array, as in the API). You enter what they return.", tools),
  ];
}

/** Return what is wrong with the text of the tools, or "". */
function problemOfTools(text) {
  if (!text) return "";
  try {
    const tools = JSON.parse(text);
    if (Array.isArray(tools) && tools.every((tool) => tool?.function?.name)) return "";
    return 'Expected an array of {"type": "function", "function": {"name": ...}}.';
  } catch (error) {
    return `This is not JSON: ${error.message}`;
  }
}
