// Voice: messages by the microphone, and answers read aloud, through the server's models for audio.

import { post, request, untilLoaded } from "./api.js";
import { dataUrl } from "./attachments.js";
import { iconButton } from "./dom.js";
import { icon } from "./icons.js";

const SPEECH_RATE = 16000;
const WAV_HEADER_BYTES = 44;
const MAX_RECORDING_MILLISECONDS = 10 * 60 * 1000;
// The first sound comes after the first part; the server takes at most 4,096 characters.
const PART_CHARACTERS = 400;
const NOT_ALLOWED = "The browser does not allow the microphone. Allow it for this page, then try again.";
const NOT_SECURE = "Browsers allow the microphone with HTTPS or on this machine only.";

let transcriptionModel = null, speechModel = null;
// The answer that is read aloud now.
let reading = null;

/** Take the server's models; returns whether one of them speaks. */
export function setAudioModels(models) {
  const first = (kind) => models.find((model) => model.kind === kind && model.state !== "failed")?.id ?? null;
  transcriptionModel = first("speech-to-text");
  speechModel = first("text-to-speech");
  return speechModel !== null;
}

/** A button that records; `insert(text)` gets what was said, `problem` shows what went wrong. */
export function microphone(insert, problem) {
  let recorder = null;
  const button = iconButton("microphone", "Record", () => recorder ? recorder.stop() : record(), { hidden: true });

  function show(label, isDisabled) {
    setButton(button, recorder ? "stop" : "microphone", label);
    button.disabled = isDisabled;
  }

  async function record() {
    problem.textContent = "";
    show("Record", true);
    try {
      const recorded = await recordUntilStopped();
      show("Transcribing…", true);
      // The server refuses forms of pages: those of other origins need no permission.
      const data = (await dataUrl(await wavOf(recorded))).split(",")[1];
      const body = { model: transcriptionModel, input_audio: { data, format: "wav" } };
      const wait = (message) => { problem.textContent = message; };
      const { text } = await untilLoaded(() => post("/v1/audio/transcriptions", body), wait);
      problem.textContent = text ? "" : "No speech was heard.";
      if (text) insert(text);
    } catch (error) {
      problem.textContent = error.name === "NotAllowedError" ? NOT_ALLOWED : error.message;
    } finally {
      show("Record", false);
    }
  }

  async function recordUntilStopped() {
    const source = await navigator.mediaDevices.getUserMedia({ audio: true });
    const parts = [];
    recorder = new MediaRecorder(source);
    recorder.ondataavailable = (event) => parts.push(event.data);
    const stopped = new Promise((resolve) => { recorder.onstop = resolve; });
    const stop = () => recorder?.stop();
    const limit = setTimeout(stop, MAX_RECORDING_MILLISECONDS);
    // The button goes with its section.
    addEventListener("hashchange", stop);
    recorder.start();
    show("Stop recording", false);
    await stopped;
    recorder = null;
    clearTimeout(limit);
    removeEventListener("hashchange", stop);
    for (const track of source.getTracks()) track.stop();
    return new Blob(parts);
  }

  return {
    button,
    /** Show the button if the server has a model for it. */
    update() {
      button.hidden = transcriptionModel === null;
      button.disabled = !navigator.mediaDevices;
      if (button.disabled) button.title = NOT_SECURE;
    },
  };
}

/** Return a recording as WAV: servers decode it without help. */
async function wavOf(recorded) {
  const decoded = await new OfflineAudioContext(1, 1, SPEECH_RATE).decodeAudioData(await recorded.arrayBuffer());
  const samples = decoded.getChannelData(0);
  const file = new DataView(new ArrayBuffer(WAV_HEADER_BYTES + 2 * samples.length));
  const write = (offset, text) => [...text].forEach((char, index) => file.setUint8(offset + index, char.charCodeAt(0)));
  write(0, "RIFF");
  file.setUint32(4, file.byteLength - 8, true);
  write(8, "WAVEfmt ");
  file.setUint32(16, 16, true);
  file.setUint16(20, 1, true);
  file.setUint16(22, 1, true);
  file.setUint32(24, SPEECH_RATE, true);
  file.setUint32(28, 2 * SPEECH_RATE, true);
  file.setUint16(32, 2, true);
  file.setUint16(34, 16, true);
  write(36, "data");
  file.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, index) => file.setInt16(WAV_HEADER_BYTES + 2 * index, Math.max(-1, Math.min(1, sample)) * 32767, true));
  return new Blob([file], { type: "audio/wav" });
}

/** A button that reads a text aloud, or stops; `text` is a function, `notify(message)` shows an error. */
export function readAloudButton(text, notify) {
  const button = iconButton("speaker", "Read aloud", () => {
    if (reading?.button === button) stopReading();
    else readAloud(button, text(), notify);
  }, { class: "speak" });
  return button;
}

function setButton(button, name, label) {
  button.replaceChildren(icon(name));
  button.title = label;
  button.setAttribute("aria-label", label);
}

export function stopReading() {
  reading?.abort.abort();
}

async function readAloud(button, text, notify) {
  stopReading();
  const parts = partsOf(text);
  if (!parts.length) return;
  const running = reading = { button, abort: new AbortController() };
  const { signal } = running.abort;
  const context = new AudioContext();
  signal.addEventListener("abort", () => context.close(), { once: true });
  addEventListener("hashchange", stopReading, { once: true });
  setButton(button, "stop", "Stop reading");
  try {
    let coming = soundOf(parts[0], context, signal);
    for (const next of [...parts.slice(1), null]) {
      const sound = await coming;
      // The next part is computed while this one plays.
      if (next !== null) coming = soundOf(next, context, signal);
      coming.catch(() => {});
      await play(sound, context, signal);
    }
  } catch (error) {
    if (!signal.aborted) notify(error.message);
  } finally {
    if (reading === running) reading = null;
    setButton(button, "speaker", "Read aloud");
    running.abort.abort();
  }
}

/** Divide a text into parts of whole sentences, where they are short enough. */
function partsOf(text) {
  const parts = [""];
  for (const sentence of text.match(new RegExp(`[^.!?\\n]{1,${PART_CHARACTERS}}[.!?\\n]*\\s*|[.!?\\n]+\\s*`, "gu")) ?? []) {
    if (parts.at(-1).length + sentence.length > PART_CHARACTERS) parts.push("");
    parts[parts.length - 1] += sentence;
  }
  return parts.filter((part) => part.trim());
}

async function soundOf(text, context, signal) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, signal,
    body: JSON.stringify({ model: speechModel, input: text, response_format: "wav" }) };
  const response = await untilLoaded(() => request("/v1/audio/speech", options), () => {}, signal);
  return context.decodeAudioData(await response.arrayBuffer());
}

function play(sound, context, signal) {
  return new Promise((resolve, reject) => {
    const source = context.createBufferSource();
    source.buffer = sound;
    source.connect(context.destination);
    source.onended = resolve;
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    source.start();
  });
}
