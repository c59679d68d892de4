// Counts of an answer: what its request used, as one line.

import { count } from "./dom.js";

// Tokens that come within less time arrived together: their speed means nothing.
const MIN_SPEED_SECONDS = 0.05;

/** Return the counts of a `usage` after `first` and `total` seconds, without those that are unknown. */
export function countsOf(usage, first, total) {
  const time = total - (first ?? total);
  return {
    first,
    ...(usage && { prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details?.cached_tokens ?? 0, completion: usage.completion_tokens }),
    ...(usage && time > MIN_SPEED_SECONDS && { speed: (usage.completion_tokens - 1) / time }),
  };
}

export function lineOf({ prompt, cached, completion, speed, first, reason }) {
  return [
    completion !== undefined && `${count(completion)} tokens`,
    speed && `${speed.toFixed(1)} tokens/s`,
    prompt && `${count(prompt)} prompt tokens, ${Math.round((100 * cached) / prompt)} % cached`,
    typeof first === "number" && `first token ${first.toFixed(2)} s`,
    reason === "length" && "stopped at the length limit",
  ].filter(Boolean).join(" · ");
}
