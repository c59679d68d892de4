// Generates an answer: the request, its stream, and the parts that are stored meanwhile.

import { stream, untilLoaded } from "./api.js";
import { messagesToSend, state } from "./conversation.js";
import { bodyOf } from "./options.js";

// A page that is closed during an answer loses at most what came in this time.
const SAVE_MILLISECONDS = 2000;

/** Generate the last answer into its view; resolves to whether it is complete. */
export async function generate(entry, view, { isContinued, readsImages, store }) {
  const running = state.running = new AbortController();
  const body = {
    model: state.model, stream: true, stream_options: { include_usage: true, continuous_usage_stats: true }, ...bodyOf(state.options),
    messages: messagesToSend(readsImages), ...(isContinued && { continue_final_message: true, add_generation_prompt: false }),
  };
  view.start();
  const saver = setInterval(() => { entry.message = view.message; store(); }, SAVE_MILLISECONDS);
  let isComplete = false;
  try {
    await receive(view, body, running.signal);
    isComplete = true;
  } catch (error) {
    if (error.name === "AbortError") view.notify("Stopped.");
    else view.notify(view.isEmpty ? error.message : `This answer is incomplete: ${error.message}`, true);
  } finally {
    clearInterval(saver);
    state.running = null;
    view.finish();
    entry.message = view.message;
    store();
  }
  return isComplete;
}

/** Add the chunks of an answer to `view`; waits while the server loads its model. */
function receive(view, body, signal) {
  return untilLoaded(async () => {
    for await (const chunk of stream("/v1/chat/completions", body, signal)) view.add(chunk);
  }, view.wait, signal);
}
