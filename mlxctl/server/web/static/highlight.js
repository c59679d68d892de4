// Colors of code: a worker finds them, so that no text can hold the page.

import { el } from "./dom.js";

const MAX_CODE_LENGTH = 100_000;
const MAX_RUNS = 5_000;
const TIMEOUT_MILLISECONDS = 3000;

let worker = null;
let earlier = Promise.resolve();

/** Color a `code` element, after those that were asked for before it. What takes too long or is too much stays plain. */
export function highlight(node) {
  const code = node.textContent, { language } = node.dataset;
  if (!language || code.length > MAX_CODE_LENGTH) return;
  earlier = earlier.then(async () => {
    const runs = await runsOf(code, language);
    if (runs && runs.length <= MAX_RUNS) node.replaceChildren(...runs.map(([text, name]) => (name ? el("span", { class: name }, text) : text)));
  });
}

function runsOf(code, language) {
  worker ??= new Worker(`${document.documentElement.dataset.root}/ui/highlight-worker.js`);
  return new Promise((resolve) => {
    const end = (runs) => { clearTimeout(timer); resolve(runs); };
    const drop = () => { worker?.terminate(); worker = null; end(null); };
    const timer = setTimeout(drop, TIMEOUT_MILLISECONDS);
    worker.onmessage = ({ data }) => end(data);
    worker.onerror = drop;
    worker.postMessage({ code, language });
  });
}
