// What can be done with a message: quiet buttons below it.

import { state } from "./conversation.js";
import { copyButton, el, iconButton } from "./dom.js";
import { readAloudButton } from "./voice.js";

/** The buttons of an answer with this text; `view` has words(), its text as it is shown, and notify(). */
export function answerActions(entry, text, canContinue, does, view) {
  return [
    branchSwitch(entry, does),
    copyButton(() => text),
    readAloudButton(view.words, (message) => view.notify(message, true)),
    iconButton("retry", "Try again", () => does.again(entry), waitsForEnd()),
    canContinue && iconButton("play", "Continue", () => does.continueAnswer(entry), waitsForEnd()),
    iconButton("branch", "Fork: continue in a copy", () => does.fork(entry), waitsForEnd()),
  ].filter(Boolean);
}

/** The buttons of a question. */
export function questionActions(entry, text, does) {
  return [
    branchSwitch(entry, does),
    copyButton(() => text),
    iconButton("edit", "Edit", () => does.edit(entry), waitsForEnd()),
  ].filter(Boolean);
}

/** Which of several branches is shown; an answer is generated in the last one. */
function branchSwitch(entry, does) {
  if (!entry.branches) return null;
  const number = entry.branch + 1, total = entry.branches.length;
  return el("span", { class: "branches", role: "group", "aria-label": "Versions" },
    iconButton("left", "Former version", () => does.showBranch(entry, -1), waitsForEnd()),
    el("span", {}, `${number}/${total}`),
    iconButton("right", "Next version", () => does.showBranch(entry, 1), waitsForEnd()));
}

/** Attributes of buttons that change the conversation, which chat.js disables during an answer. */
function waitsForEnd() {
  return { class: "rewind", disabled: state.running !== null };
}
