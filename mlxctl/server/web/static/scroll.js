// The position of the page in a conversation.

const NEAR_END_PIXELS = 120;

export function scrollToEnd() {
  scrollTo({ top: document.documentElement.scrollHeight });
}

export function isAtEnd() {
  return innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR_END_PIXELS;
}

/** Change the page; a reader who is at its end stays there. */
export function following(change) {
  const wasAtEnd = isAtEnd();
  change();
  if (wasAtEnd) scrollToEnd();
}
