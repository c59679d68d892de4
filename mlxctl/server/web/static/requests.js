// Requests: what the server is doing now, and the last ones that ended.

import { get, remove } from "./api.js";
import { count, el, notice, seconds, size, table } from "./dom.js";

const OPEN_REQUESTS = ["waiting", "reading", "answering"];

export async function requestsView(root, every) {
  const summary = el("dl", { class: "tiles" }), list = el("div"), message = el("div");
  root.append(summary, el("h2", {}, "Open and recent"), message, list);

  async function cancel(number) {
    message.replaceChildren();
    try {
      await remove(`/requests/${number}`);
    } catch (error) {
      message.replaceChildren(notice(error.message, true));
    }
    await refresh();
  }

  async function refresh() {
    const stats = await get("/stats");
    const used = stats.cache_max_bytes ? Math.round((100 * stats.cache_bytes) / stats.cache_max_bytes) : 0;
    summary.replaceChildren(...[
      ["Decoding", stats.num_decoding], ["Prefilling", stats.num_prefilling], ["Waiting", stats.num_waiting], ["Memory", size(stats.resident_bytes)],
      ["Prefix cache", `${size(stats.cache_bytes)} (${used} %)`], ["Tokens reused", count(stats.cache_tokens_reused)],
    ].map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))));
    const found = (await get("/requests")).requests;
    list.replaceChildren(table([
      { title: "#", number: true, cell: (request) => String(request.number) },
      { title: "Model", cell: (request) => (request.route === "local" ? request.model : `${request.model} (${request.route})`) },
      { title: "State", cell: (request) => request.state.replace("_", " ") },
      { title: "Agent", cell: (request) => request.agent ?? request.caller },
      { title: "Prompt", number: true, cell: (request) => count(request.num_prompt_tokens) },
      { title: "Cached", number: true, cell: (request) => count(request.num_cached_tokens) },
      { title: "Generated", number: true, cell: (request) => count(request.num_generated_tokens) },
      { title: "First token", number: true, cell: (request) => seconds(request.first_token_seconds) },
      { title: "Tokens/s", number: true, cell: (request) => request.tokens_per_second?.toFixed(1) },
      { title: "Time", number: true, cell: (request) => seconds(request.age_seconds) },
      { title: "", cell: (request) => OPEN_REQUESTS.includes(request.state)
        ? el("button", { type: "button", onclick: () => cancel(request.number) }, "Cancel") : "" },
    ], found, "No requests yet."));
  }

  await refresh();
  every(1000, refresh);
}
