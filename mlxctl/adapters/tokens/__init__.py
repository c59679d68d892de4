"""Text to token ids and back, stop tokens, logprobs. Pure."""
