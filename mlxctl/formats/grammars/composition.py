"""Grammars composed of other grammars."""

import json
from collections.abc import Mapping
from typing import Any

Definition = Mapping[str, Any]
"""One grammar as llguidance defines it, without its name: `json_schema` or `lark_grammar`."""


def compose(rules: str, parts: Mapping[str, Definition]) -> str:
    """Return the grammar whose `start` is in `rules`.

    `rules` are in Lark's notation, where `@name` refers to the part of that name.
    """
    # Without this option, text without an alternative has to begin with the token that the tokenizer writes
    # for that text alone. Where a token extends into the text after it, the model writes another one.
    whole = f'%llguidance {{"no_forcing": true}}\n{rules}'
    named = [{"name": name, **definition} for name, definition in parts.items()]
    return json.dumps(
        {"grammars": [{"name": "answer_around_parts", "lark_grammar": whole}, *named]}, ensure_ascii=False
    )
