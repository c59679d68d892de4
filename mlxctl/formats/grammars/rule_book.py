"""The rules of one Lark grammar under construction."""

import json
from collections.abc import Callable, Iterable

from mlxctl.formats.grammars.errors import UnsupportedSchema
from mlxctl.formats.grammars.literals import LarkLiterals

_MAX_RULES = 4000


class RuleBook:
    """Collects rules, each once.

    Raises UnsupportedSchema for too many.
    """

    def __init__(self, literals: LarkLiterals) -> None:
        self._literals = literals
        self._lines: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def literal(self, text: str) -> str:
        """Return text as a Lark expression; an empty text as ""."""
        return self._literals.literal(text)

    def quoted(self, text: str, closer: str) -> str:
        """Return an expression of exactly this text and the closer."""
        head, rest = self._literals.split(closer)
        return f"{json.dumps(text + head)} {rest}" if text + head else rest

    def terminal(self, expression: str) -> str:
        """Return the name of a terminal for a regular expression."""
        return self._named("T", expression, lambda: expression)

    def rule(self, key: str, write: Callable[[], str]) -> str:
        """Return the name of the rule for `key`.

        `write` returns its expression, which may refer to the rule.
        """
        return self._named("r", key, write)

    def closed(self, content: str, closer: str, *, never: str = "") -> str:
        """Return an expression of text up to its closer.

        Where the closer is no token, only one terminal can separate both. Neither it nor the text and the
        closer's beginning together match `never`.
        """
        text, rest = self._literals.split(closer)
        whole = f"({self.terminal(content)} {json.dumps(text)})" if text else self.terminal(content)
        return f"{self.terminal(f'{whole} & ~{never}' if never else whole)} {rest}"

    def one_of(self, expressions: Iterable[str]) -> str:
        """Return an expression of alternatives; without any, one that never matches."""
        choices = list(dict.fromkeys(expressions))
        return f"({' | '.join(choices)})" if choices else self.terminal("/a/ & /b/")

    def source(self, start: str) -> str:
        """Return the grammar with the expression `start`."""
        return "\n".join(
            [f"start: {start}", *(f"{name}: {expression}" for name, expression in self._lines.items())]
        )

    def _named(self, letter: str, key: str, write: Callable[[], str]) -> str:
        if (name := self._names.get(letter + key)) is None:
            if len(self._names) >= _MAX_RULES:
                raise UnsupportedSchema("it is too large")
            name = self._names[letter + key] = f"{letter}{len(self._names)}"
            self._lines[name] = ""
            self._lines[name] = write()
        return name
