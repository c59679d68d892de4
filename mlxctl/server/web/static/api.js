// Requests to this server: the key, errors in one shape, and server-sent events.

import { setTabValue, tabValue } from "./store.js";

const KEY = "mlxctl-key";
const LOST = "The connection to the server was lost.";

export class ApiError extends Error {
  constructor(message, status, retrySeconds = null) {
    super(message);
    this.status = status;
    this.retrySeconds = retrySeconds;
  }
}

function headers(extra) {
  const key = tabValue(KEY);
  return { ...extra, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

/** Ask for a key; resolves to whether one was given. Requests that wait at the same time share the question. */
function askForKey(hint) {
  const dialog = document.getElementById("key-dialog");
  const input = document.getElementById("key-input");
  const closed = new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  if (!dialog.open) {
    document.getElementById("key-hint").textContent = hint;
    // Not a submit button: Enter in the field would press the first of these.
    document.getElementById("key-cancel").onclick = () => dialog.close();
    dialog.returnValue = "";
    dialog.showModal();
  }
  return closed.then(() => {
    if (dialog.returnValue === "use" && input.value) setTabValue(KEY, input.value);
    input.value = "";
    return tabValue(KEY) !== null;
  });
}

/** Make a request and return the response; asks for a key when the server wants one. Throws ApiError. */
export async function request(path, options = {}) {
  for (let hint = "This server needs a key. It is kept in this tab only.";;) {
    let response;
    const sent = headers(options.headers);
    try {
      response = await fetch(`${document.documentElement.dataset.root}${path}`, { ...options, headers: sent });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The server does not answer. Is it still running?", 0);
    }
    if (response.ok) return response;
    if (response.status !== 401) {
      const retry = Number(response.headers.get("Retry-After"));
      throw new ApiError(await messageOf(response), response.status, retry > 0 ? retry : null);
    }
    if (sent.Authorization) {
      setTabValue(KEY, null);
      hint = "The server does not accept this key. Try another one.";
    }
    if (!await askForKey(hint)) throw new ApiError("This server needs an API key.", 401);
  }
}

async function messageOf(response) {
  try {
    const body = await response.json();
    return body.error?.message ?? body.detail ?? body.title ?? `HTTP ${response.status}`;
  } catch {
    return `HTTP ${response.status}`;
  }
}

/** Return what `send` resolves to; while the server loads its model, `wait(message)` is called and it is sent again. */
export async function untilLoaded(send, wait, signal) {
  for (;;) {
    try {
      return await send();
    } catch (error) {
      if (error.status !== 503 || error.retrySeconds === null) throw error;
      wait(error.message);
      await pause(1000 * error.retrySeconds, signal);
    }
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
  });
}

/** Return the JSON of a GET. */
export async function get(path) {
  return (await request(path)).json();
}

/** Return the JSON of a POST. */
export async function post(path, body) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}) };
  return (await request(path, options)).json();
}

/**
 * Yield the data of each server-sent event of a POST, parsed, until `[DONE]`, and the progress of prefill as
 * {prefilled, total}. Throws ApiError, also when the connection ends before that.
 */
export async function* stream(path, body, signal) {
  const response = await request(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await readFrom(reader);
    if (done) throw new ApiError(LOST, 0);
    const lines = value.split("\n");
    lines[0] = rest + lines[0];
    rest = lines.pop();
    for (const line of lines) {
      const prefill = line.match(/^:\s*prefill (\d+)\/(\d+)/);
      if (prefill) yield { prefilled: Number(prefill[1]), total: Number(prefill[2]) };
      if (!line.startsWith("data: ")) continue;
      const data = line.slice(6);
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new ApiError(event.error.message, 200);
      yield event;
    }
  }
}

async function readFrom(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(LOST, 0);
  }
}

/** Send a DELETE. */
export async function remove(path) {
  await request(path, { method: "DELETE" });
}
