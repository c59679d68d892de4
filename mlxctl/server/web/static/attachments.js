// Images and videos of the next message: chosen, pasted or dropped, shown with a button to remove each.

import { el, size } from "./dom.js";

const IMAGE_TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const VIDEO_TYPES = ["video/mp4", "video/quicktime", "video/webm"];
const MAX_BYTES = 8 * 1024 * 1024;

/** An image or a video of a data URL. */
export function shown(src, label, attributes = {}) {
  return src.startsWith("data:video/") ? el("video", { src, controls: true, "aria-label": label.replace("image", "video") })
    : el("img", { src, alt: label, ...attributes });
}

/** The images and videos attached to a composer: `urls` are kept outside, since a view is drawn anew. */
export function attachments(urls, input) {
  const file = el("input", { type: "file", accept: [...IMAGE_TYPES, ...VIDEO_TYPES].join(), multiple: true, hidden: true, onchange: async () => {
    await add(file.files);
    file.value = "";
  } });
  const previews = el("div", { class: "attachments", hidden: true });
  const problem = el("span", { class: "muted", role: "status" });
  const button = el("button", { type: "button", onclick: () => file.click() }, "Attach image or video");
  input.addEventListener("paste", (event) => take(event, event.clipboardData));
  input.addEventListener("dragover", (event) => { if (event.dataTransfer?.types.includes("Files")) event.preventDefault(); });
  input.addEventListener("drop", (event) => take(event, event.dataTransfer));

  function take(event, transfer) {
    if (!transfer?.files.length) return;
    event.preventDefault();
    add(transfer.files);
  }

  async function add(files) {
    const problems = [];
    for (const image of files) {
      const isVideo = VIDEO_TYPES.includes(image.type);
      if (!isVideo && !IMAGE_TYPES.includes(image.type)) {
        problems.push(`${image.name} is not a PNG, JPEG, WebP or GIF image, or an MP4, MOV or WebM video`);
      } else if (image.size > MAX_BYTES) problems.push(`${image.name} is larger than ${size(MAX_BYTES)}`);
      else if (!isVideo && !await isImage(image)) problems.push(`${image.name} cannot be read as an image`);
      else urls.push(await dataUrl(image));
    }
    draw();
    problem.textContent = problems.join("; ");
  }

  function draw() {
    previews.hidden = urls.length === 0;
    previews.replaceChildren(...urls.map((src, index) => el("figure", {}, shown(src, `attached image ${index + 1}`),
      el("button", { type: "button", "aria-label": `Remove attached image ${index + 1}`, onclick: () => {
        urls.splice(index, 1);
        draw();
        input.focus();
      } }, "Remove"))));
    problem.textContent = "";
  }

  draw();
  return {
    file, previews, problem, button,
    /** Replace the images. */
    set(images) {
      urls.splice(0, urls.length, ...images);
      draw();
    },
    /** Return the images, and forget them. */
    take() {
      const taken = urls.splice(0);
      draw();
      return taken;
    },
  };
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
