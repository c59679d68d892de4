// The prefix cache: its tree of conversations, and why the last requests hit or missed.

import { get } from "./api.js";
import { count, el, size, table } from "./dom.js";

const PAGE = 200;
const MAX_CHUNKS = 2000;
const LABEL = 120;

export async function cacheView(root) {
  const explained = el("div"), tree = el("div");
  root.append(
    el("div", { class: "toolbar" }, el("button", { type: "button", onclick: refresh }, "Refresh")),
    el("h2", {}, "Why the last requests hit or missed"), explained, el("h2", {}, "Cached conversations"), tree);

  async function refresh() {
    const { explanations } = await get("/cache/explain?last=10");
    explained.replaceChildren(table([
      { title: "Model", cell: (item) => item.model },
      { title: "Cached", number: true, cell: (item) => `${count(item.num_cached_tokens)} of ${count(item.num_prompt_tokens)}` },
      { title: "Reason", cell: (item) => item.reason },
      { title: "Explanation", cell: (item) => item.sentence },
    ], explanations, "No requests yet."));
    const chunks = [];
    let isWhole = false;
    for (let offset = 0; offset !== null && chunks.length < MAX_CHUNKS;) {
      const page = await get(`/cache?limit=${PAGE}&offset=${offset}`);
      chunks.push(...page.chunks);
      offset = page.next_offset;
      isWhole = offset === null;
    }
    tree.replaceChildren(drawn(chunks), ...(isWhole ? [] : [el("p", { class: "muted" }, `Only the first ${MAX_CHUNKS} chunks are shown.`)]));
  }

  await refresh();
}

function drawn(chunks) {
  if (chunks.length === 0) return el("p", { class: "muted" }, "The prefix cache is empty.");
  const children = Map.groupBy(chunks, (chunk) => chunk.parent);
  const known = new Set(chunks.map((chunk) => chunk.key));
  const roots = chunks.filter((chunk) => chunk.parent === null || !known.has(chunk.parent));
  const branch = (items) => el("ul", { class: "tree" }, ...items.map((first) => {
    const { part, under } = unbranched(first, children);
    const last = part.at(-1), sum = (field) => part.reduce((total, chunk) => total + chunk[field], 0);
    const text = (first.text ?? "(text not known: its model is not served)").replace(/\s+/g, " ");
    const facts = `${count(last.start + last.num_tokens)} tokens · ${size(sum("memory_bytes") + sum("disk_bytes"))}`
      + `${sum("memory_bytes") ? "" : " on disk"}${part.some((chunk) => chunk.is_pinned) ? " · pinned" : ""}`
      + ` · ${Math.max(...part.map((chunk) => chunk.num_hits))} hits`;
    return el("li", {}, el("span", {}, text.slice(0, LABEL)), " ", el("span", { class: "muted" }, facts),
      under.length ? branch(under) : null);
  }));
  return el("div", { class: "scroll" }, branch(roots));
}

/** The chunks from `first` to the next branch or end, and those after it. */
function unbranched(first, children) {
  const part = [first];
  for (;;) {
    const under = children.get(part.at(-1).key) ?? [];
    if (under.length !== 1) return { part, under };
    part.push(under[0]);
  }
}
