"""Grammars of whole answers: thinking, text, tool calls, structured output. Pure."""
