"""The rules of one Lark grammar while it is written: each said once, however often it is needed."""

import json
from collections.abc import Callable, Iterable

from mlxctl.grammars.errors import Unwritable
from mlxctl.grammars.literals import Spelling

_MAX_RULES = 4000


class RuleBook:
    """Collects rules. Raises Unwritable where they become too many."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._lines: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def spell(self, text: str) -> str:
        """Return what a format writes as an expression; an empty text as nothing."""
        return self._spelling.spell(text)

    def quoted(self, text: str, closer: str) -> str:
        """Return an expression of just this text, whatever it says, and the closer behind it."""
        head, rest = self._spelling.split(closer)
        return f"{json.dumps(text + head)} {rest}" if text + head else rest

    def terminal(self, expression: str) -> str:
        """Return the name of the terminal that this expression of regular expressions defines."""
        return self._named("T", expression, lambda: expression)

    def rule(self, key: str, write: Callable[[], str]) -> str:
        """Return the name of the rule for `key`; `write` says what it is, and may refer to it."""
        return self._named("r", key, write)

    def closed(self, content: str, closer: str) -> str:
        """Return an expression of text that goes on to its closer: only one terminal can tell them apart
        where that is no token.
        """
        text, rest = self._spelling.split(closer)
        inside = self.terminal(content)
        return f"{self.terminal(f'{inside} {json.dumps(text)}') if text else inside} {rest}"

    def one_of(self, expressions: Iterable[str]) -> str:
        """Return an expression of which one is meant; of none, one that no text fits."""
        choices = list(dict.fromkeys(expressions))
        return f"({' | '.join(choices)})" if choices else self.terminal("/a/ & /b/")

    def written(self, start: str) -> str:
        """Return the grammar that begins with the expression `start`."""
        return "\n".join(
            [f"start: {start}", *(f"{name}: {expression}" for name, expression in self._lines.items())]
        )

    def _named(self, letter: str, key: str, write: Callable[[], str]) -> str:
        if (name := self._names.get(letter + key)) is None:
            if len(self._names) >= _MAX_RULES:
                raise Unwritable("it is too large")
            name = self._names[letter + key] = f"{letter}{len(self._names)}"
            self._lines[name] = ""
            self._lines[name] = write()
        return name
