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
    named = [{"name": name, **definition} for name, definition in parts.items()]
    return json.dumps(
        {"grammars": [{"name": "answer_around_parts", "lark_grammar": rules}, *named]}, ensure_ascii=False
    )
