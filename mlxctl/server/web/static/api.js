// Requests to this server: the key, errors in one shape, and server-sent events.

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
  const key = sessionStorage.getItem(KEY);
  return { ...extra, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

/** Ask for a key; resolves to whether one was given. */
function askForKey() {
  const dialog = document.getElementById("key-dialog");
  const input = document.getElementById("key-input");
  if (dialog.open) return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "use"), { once: true }));
  input.value = "";
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "use" && input.value !== "";
      if (given) sessionStorage.setItem(KEY, input.value);
      input.value = "";
      resolve(given);
    }, { once: true });
  });
}

/** Make a request and return the response; asks for a key once when the server wants one. Throws ApiError. */
export async function request(path, options = {}, mayAsk = true) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: headers(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Is it still running?", 0);
  }
  if (response.ok) return response;
  if (response.status === 401 && mayAsk) {
    sessionStorage.removeItem(KEY);
    if (await askForKey()) return request(path, options, false);
  }
  const retry = Number(response.headers.get("Retry-After"));
  throw new ApiError(await messageOf(response), response.status, retry > 0 ? retry : null);
}

async function messageOf(response) {
  try {
    const body = await response.json();
    return body.error?.message ?? body.detail ?? body.title ?? `HTTP ${response.status}`;
  } catch {
    return `HTTP ${response.status}`;
  }
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
    const lines = (rest + value).split("\n");
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
