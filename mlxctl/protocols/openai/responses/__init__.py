"""OpenAI's Responses API: items in, items out, and responses that the next request can refer to."""
