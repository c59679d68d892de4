"""Literal text in Lark grammars.

A tokenizer's control tokens are separate symbols there, not text.
"""

import json
import re
from collections.abc import Iterable


class LarkLiterals:
    """Writes literal text for one tokenizer.

    `control_tokens` are texts and ids of tokens that no text of a grammar matches.
    """

    def __init__(self, control_tokens: Iterable[tuple[str, int]]) -> None:
        self._ids = dict(control_tokens)
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def literal(self, text: str) -> str:
        """Return `text` as a Lark expression; an empty text as ""."""
        pieces: list[str] = []
        end = 0
        for found in self._pattern.finditer(text):
            pieces += _literal(text[end : found.start()])
            pieces.append(f"<[{self._ids[found[0]]}]>")
            end = found.end()
        return " ".join([*pieces, *_literal(text[end:])])

    def split(self, text: str) -> tuple[str, str]:
        """Split a text at its first control token.

        Returns the text before it unchanged, and the rest as a Lark expression.
        """
        found = self._pattern.search(text)
        return (text, "") if found is None else (text[: found.start()], self.literal(text[found.start() :]))

    def begins_with_control(self, text: str) -> bool:
        """Whether the text begins with a control token."""
        return self._pattern.match(text) is not None

    def ends_with_control(self, text: str) -> bool:
        """Whether the text ends with a control token."""
        return any(text.endswith(token) for token in self._ids)


def _literal(text: str) -> list[str]:
    return [json.dumps(text)] if text else []
