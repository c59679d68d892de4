"""Text formats of model families: prompts in, answers out.

`adapters` are model families, `parsers` read generated text, `grammars` are those of structured output and
tool calls. Prompts are made in preparation processes, answers are parsed on the front's event loop. Imports
`ir` and `state`; never mlx or transformers.
"""
