"""Literal text in a grammar: a tokenizer's control tokens are no text there, but symbols of their own."""

import json
import re
from collections.abc import Iterable


class Spelling:
    """Spells text for one tokenizer.

    `control_tokens` are the texts and ids of tokens that no text of a grammar matches.
    """

    def __init__(self, control_tokens: Iterable[tuple[str, int]]) -> None:
        self._ids = dict(control_tokens)
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def spell(self, text: str) -> str:
        """Return `text` as an expression of a Lark grammar; an empty text as nothing."""
        pieces: list[str] = []
        end = 0
        for found in self._pattern.finditer(text):
            pieces += _literal(text[end : found.start()])
            pieces.append(f"<[{self._ids[found[0]]}]>")
            end = found.end()
        return " ".join([*pieces, *_literal(text[end:])])

    def split(self, text: str) -> tuple[str, str]:
        """Return what of the text stands before its first control token, as it is, and the rest of it,
        spelled.
        """
        found = self._pattern.search(text)
        return (text, "") if found is None else (text[: found.start()], self.spell(text[found.start() :]))

    def begins_with_control(self, text: str) -> bool:
        """Whether a control token begins the text."""
        return self._pattern.match(text) is not None

    def ends_with_control(self, text: str) -> bool:
        """Whether a control token ends the text."""
        return any(text.endswith(token) for token in self._ids)


def _literal(text: str) -> list[str]:
    return [json.dumps(text)] if text else []
