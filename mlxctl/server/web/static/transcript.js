// The messages on the page. Of a long chat the last ones are there, and earlier ones once they are scrolled to.

import { state } from "./conversation.js";
import { el } from "./dom.js";

const NUM_SHOWN = 40;

/** `nodeOf(entry)` draws an entry that has no node yet; `empty()` what is shown without any. */
export function transcript(nodeOf, empty) {
  const node = el("section", { class: "transcript", "aria-label": "Conversation", "aria-live": "polite" });
  const earlier = el("button", { type: "button", class: "earlier", onclick: showEarlier }, "Earlier messages");
  let begin = 0;
  const observer = new IntersectionObserver((seen) => { if (seen.at(-1).isIntersecting) showEarlier(); }, { rootMargin: "1000px" });

  function shown(from, end) {
    return state.entries.slice(from, end).map((entry) => entry.node ??= nodeOf(entry));
  }

  function showEarlier() {
    const end = begin, first = earlier.nextSibling, { top } = first.getBoundingClientRect();
    begin = Math.max(0, begin - NUM_SHOWN);
    earlier.after(...shown(begin, end));
    if (!begin) earlier.remove();
    // What is read stays where it is.
    scrollBy(0, first.getBoundingClientRect().top - top);
    // It is seen again if it is still near.
    observer.unobserve(earlier);
    observer.observe(earlier);
  }

  return {
    node,
    /** Show the end of the chat, and what was shown of it before. */
    draw(isOther = false) {
      if (isOther || begin >= state.entries.length) begin = Math.max(0, state.entries.length - NUM_SHOWN);
      const wanted = [...(begin ? [earlier] : []), ...shown(begin)];
      // What is on the page already stays there: a selection, a focus or a scrolled code block.
      const old = [...node.children], same = wanted.findIndex((each, index) => each !== old[index]);
      for (const each of old.slice(same < 0 ? wanted.length : same)) each.remove();
      if (same >= 0) node.append(...wanted.slice(same));
      observer.observe(earlier);
      if (!state.entries.length) node.append(empty());
    },
  };
}
