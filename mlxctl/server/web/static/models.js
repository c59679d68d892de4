// Models: what is served, what is on this machine and fits, and downloads.

import { get, post, remove } from "./api.js";
import { count, el, notice, size, table } from "./dom.js";
import { stateOf } from "./model_picker.js";

const OPEN_DOWNLOADS = ["waiting", "running"];

export async function modelsView(root, every) {
  const served = el("div"), library = el("div"), downloads = el("div"), message = el("div");
  const repository = el("input", { "aria-label": "Model to download", placeholder: "qwen3:8b, ORGANIZATION/NAME, an address or words to search", required: true });
  const form = el("form", { class: "toolbar", onsubmit: (event) => {
    event.preventDefault();
    change(async () => {
      await post("/downloads", { repo: repository.value.trim() });
      repository.value = "";
    });
  } }, repository, el("button", { class: "primary" }, "Download"), el("button", { type: "button", onclick: search }, "Search the hub"));
  const found = el("div", { role: "status" });
  root.append(message, el("h2", {}, "Served"), served, el("h2", {}, "On this machine"), library,
    el("h2", {}, "Downloads"), form, found, downloads);

  function search() {
    if (!form.reportValidity()) return;
    change(async () => {
      const { models } = await get(`/library/hub?search=${encodeURIComponent(repository.value.trim())}`);
      found.replaceChildren(table([
        { title: "On the hub", cell: (model) => model.repository },
        { title: "Downloads in 30 days", number: true, cell: (model) => count(model.downloads) },
        { title: "Changed", cell: (model) => model.updated_at },
        { title: "", cell: (model) => el("button", { type: "button", "aria-label": `Download ${model.repository}`,
          onclick: () => change(() => post("/downloads", { repo: model.repository })) }, "Download") },
      ], models, "The hub has no model in the MLX format with these words in its name."));
    });
  }

  async function change(action) {
    message.replaceChildren();
    try {
      await action();
    } catch (error) {
      message.replaceChildren(notice(error.message, true));
    }
    await refresh();
  }

  function modelButton(label, model) {
    return el("button", { type: "button", onclick: () => change(() => post(`/models/${label.toLowerCase()}`, { model: model.id })) }, label);
  }

  function downloadButtons(download) {
    const button = (label, action) => el("button", { type: "button", onclick: () => change(action) }, label);
    const drop = () => remove(`/downloads/${download.repo}`);
    if ([download.state, download.probe].some((state) => OPEN_DOWNLOADS.includes(state))) return button("Cancel", drop);
    const again = () => post("/downloads", { repo: download.repo, probe: Boolean(download.probe) });
    return el("span", {}, ...(download.state === "done" ? [] : [button("Retry", again), " "]), button("Dismiss", drop));
  }

  async function refresh() {
    const models = (await get("/v1/models")).data;
    served.replaceChildren(table([
      { title: "Name", cell: (model) => model.id },
      { title: "State", cell: stateOf },
      { title: "Kind", cell: (model) => model.kind },
      { title: "Context", number: true, cell: (model) => count(model.max_model_len) },
      { title: "Size", number: true, cell: (model) => size(model.size_bytes) },
      { title: "Tools", cell: (model) => model.supports_tools ? "yes" : "no" },
      { title: "Probed", cell: (model) => model.probed ? "yes" : "no" },
      { title: "", cell: (model) => model.remote ? "" : el("span", {},
        modelButton(model.state === "loaded" ? "Unload" : "Load", model), " ", modelButton(model.pinned ? "Unpin" : "Pin", model)) },
    ], models, "No models are served."));
    const listed = (await get("/downloads")).downloads;
    downloads.replaceChildren(table([
      { title: "Repository", cell: (download) => download.repo },
      { title: "State", cell: downloadState },
      { title: "Progress", cell: (download) => progress(download) },
      { title: "", cell: (download) => downloadButtons(download) },
    ], listed, "No downloads yet. If this server does not allow them (library.allow_downloads), use a terminal: mlxctl models pull MODEL"));
  }

  await refresh();
  const models = (await get("/library")).models;
  library.replaceChildren(table([
    { title: "Name", cell: (model) => model.name },
    { title: "Kind", cell: (model) => model.kind },
    { title: "On disk", number: true, cell: (model) => size(model.disk_bytes) },
    { title: "Context", number: true, cell: (model) => count(model.context_length) },
    { title: "Fits", cell: (model) => model.problem ?? fitOf(model.assessment) },
  ], models, "No models in the library yet."));
  every(1000, refresh);
}

function fitOf(assessment) {
  const { fits, max_safe_context: context, measured_decode_tps: measured, predicted_decode_tps: predicted } = assessment ?? {};
  return [
    fits ? "yes" : fits === false ? "no" : "unknown",
    fits && context && `up to ${count(context)} tokens`,
    measured ? `${measured.toFixed(0)} tokens/s (measured)` : predicted && `at most ${predicted.toFixed(0)} tokens/s (predicted)`,
  ].filter(Boolean).join(", ");
}

function downloadState(download) {
  if (download.error) return download.error;
  if (!download.probe || download.state !== "done") return download.state;
  return download.probe_error ? `done; probe failed: ${download.probe_error}` : `done; probe ${download.probe}`;
}

function progress(download) {
  if (!download.num_bytes_total) return size(download.num_bytes);
  const share = Math.min(1, download.num_bytes / download.num_bytes_total);
  const filled = el("span");
  filled.style.width = `${share * 100}%`;
  return el("div", { role: "progressbar", "aria-valuenow": Math.round(share * 100), "aria-valuemin": 0, "aria-valuemax": 100 },
    el("div", { class: "bar" }, filled), `${size(download.num_bytes)} of ${size(download.num_bytes_total)}`);
}
