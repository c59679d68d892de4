"""Parsers that a model's files describe: `response_template` of tokenizer_config.json.

The semantics are those of Transformers 5.13 (docs/source/en/chat_response_parsing.md). Templates are not
trusted: their sizes have bounds, and their patterns match in linear time.
"""
