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
  const branch = (items) => el("ul", { class: "tree" }, ...items.map((chunk) => {
    const text = (chunk.text ?? "(text not known: stored for a model that is not loaded)").replace(/\s+/g, " ");
    const facts = `${count(chunk.start + chunk.num_tokens)} tokens · ${size(chunk.memory_bytes + chunk.disk_bytes)}`
      + `${chunk.memory_bytes ? "" : " on disk"}${chunk.is_pinned ? " · pinned" : ""} · ${chunk.num_hits} hits`;
    const under = children.get(chunk.key);
    return el("li", {}, el("span", {}, text.slice(0, LABEL)), " ", el("span", { class: "muted" }, facts),
      under ? branch(under) : null);
  }));
  return branch(roots);
}
