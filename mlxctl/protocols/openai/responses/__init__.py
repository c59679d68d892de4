"""OpenAI's Responses API: items in, items out, stored responses."""
