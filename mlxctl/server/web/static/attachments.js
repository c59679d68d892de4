// Files of the next message: chosen, pasted or dropped, shown with a button to remove each.

import { el, iconButton, size } from "./dom.js";
import { icon } from "./icons.js";

const IMAGE_TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const VIDEO_TYPES = ["video/mp4", "video/quicktime", "video/webm"];
const PDF = "application/pdf";
const MAX_BYTES = 8 * 1024 * 1024;
const MAX_TEXT_BYTES = 1024 * 1024;

/**
 * The files attached to a composer, as parts of a message's content: `parts` are kept outside, since a view is drawn
 * anew. They are dropped on `area` and pasted into `input`.
 */
export function attachments(parts, input, area) {
  const file = el("input", { type: "file", multiple: true, hidden: true, onchange: async () => {
    await add(file.files);
    file.value = "";
  } });
  const previews = el("div", { class: "attachments", hidden: true });
  const problem = el("p", { class: "muted problem", role: "status" });
  const button = iconButton("attach", "Attach file", () => file.click());
  input.addEventListener("paste", (event) => take(event, event.clipboardData));
  area.addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    area.classList.add("dropping");
  });
  area.addEventListener("dragleave", (event) => { if (!area.contains(event.relatedTarget)) area.classList.remove("dropping"); });
  area.addEventListener("drop", (event) => { area.classList.remove("dropping"); take(event, event.dataTransfer); });

  function take(event, transfer) {
    if (!transfer?.files.length) return;
    event.preventDefault();
    add(transfer.files);
  }

  async function add(files) {
    const problems = [];
    for (const each of files) {
      try { parts.push(await partOf(each)); } catch (error) { problems.push(error.message); }
    }
    draw();
    problem.textContent = problems.join("; ");
  }

  function draw() {
    previews.hidden = parts.length === 0;
    previews.replaceChildren(...parts.map((part, index) => el("figure", {}, attachmentView(part),
      iconButton("close", `Remove attached file ${index + 1}`, () => {
        parts.splice(index, 1);
        draw();
        input.focus();
      }))));
    problem.textContent = "";
  }

  draw();
  return {
    file, previews, problem, button,
    /** Replace the files. */
    set(wanted) {
      parts.splice(0, parts.length, ...wanted);
      draw();
    },
    /** Return the files, and forget them. */
    take() {
      const taken = parts.splice(0);
      draw();
      return taken;
    },
  };
}

/** Show a part of a message: an image, a video, or the name of a file. */
export function attachmentView(part) {
  if (part.type === "video_url") return el("video", { src: part.video_url.url, controls: true, "aria-label": "attached video" });
  if (part.type === "image_url") return el("img", { src: part.image_url.url, alt: "attached image" });
  return el("span", { class: "file" }, icon("file"), part.file?.filename ?? nameInText(part.text));
}

/** Return a file as a part of a message. Throws an Error whose message is for the user. */
async function partOf(file) {
  if (IMAGE_TYPES.includes(file.type)) {
    checkSize(file, MAX_BYTES);
    if (!await isImage(file)) throw new Error(`${file.name} cannot be read as an image`);
    return { type: "image_url", image_url: { url: await dataUrl(file) } };
  }
  if (VIDEO_TYPES.includes(file.type)) {
    checkSize(file, MAX_BYTES);
    return { type: "video_url", video_url: { url: await dataUrl(file) } };
  }
  if (file.type === PDF) {
    checkSize(file, MAX_BYTES);
    return { type: "file", file: { filename: file.name, file_data: await dataUrl(file) } };
  }
  const text = await textOfFile(file);
  if (text === null) throw new Error(`${file.name} is no text, no PDF file, no PNG, JPEG, WebP or GIF image, and no MP4, MOV or WebM video`);
  return { type: "text", text: fenced(file.name, text) };
}

function checkSize(file, most) {
  if (file.size > most) throw new Error(`${file.name} is larger than ${size(most)}`);
}

/** Return the text of a file, or null of other files. */
async function textOfFile(file) {
  if (/^(image|audio|video|font)\//.test(file.type)) return null;
  checkSize(file, MAX_TEXT_BYTES);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

/** A text file in a message: its name, and its text in a fence that it does not contain. */
function fenced(name, text) {
  let fence = "```";
  while (text.includes(fence)) fence += "`";
  return `${name}:\n${fence}\n${text.replace(/\n$/, "")}\n${fence}`;
}

function nameInText(text) {
  return text.split("\n", 1)[0].replace(/:$/, "");
}

async function isImage(file) {
  try {
    (await createImageBitmap(file)).close();
    return true;
  } catch {
    return false;
  }
}

export function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
