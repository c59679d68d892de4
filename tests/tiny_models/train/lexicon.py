"""The words of the lessons.

A held-out word is practiced by repeating it, never in a call: what is called with it was copied.
"""

import random
import tomllib
from pathlib import Path
from typing import Literal

_LISTS = {
    name: words.split()
    for name, words in tomllib.loads(
        (Path(__file__).parent / "words.toml").read_text(encoding="utf-8")
    ).items()
}
_VERBS = ("get", "get", "get", "get", "find", "show", "read", "check")
_KNOWN = (
    "places",
    "held_out_places",
    "topics",
    "held_out_topics",
    "verbs",
    "names",
    "held_out_names",
    "states",
    "units",
)
WORDS = tuple(
    dict.fromkeys(word for name in _KNOWN for word in (_VERBS if name == "verbs" else _LISTS[name]))
)
"""All words that are one token each."""

Kind = Literal["practiced", "held out", "made up"]
KINDS: tuple[Kind, ...] = ("practiced", "held out", "made up")


class Lexicon:
    """Draws words from a seed: practiced ones mixed with made-up ones; with `only`, places, topics and names
    of one kind.
    """

    def __init__(self, seed: int, *, only: Kind | None = None) -> None:
        self.dice = random.Random(seed)
        self._only = only

    def chance(self, probability: float) -> bool:
        """Throw a loaded coin."""
        return self.dice.random() < probability

    def place(self) -> str:
        """A city."""
        return self._word("places") or self._made_up()

    def topics(self, number: int) -> list[str]:
        """Different things that one can ask about."""
        found: dict[str, None] = {}
        while len(found) < number:
            found[self._word("topics") or self._made_up()] = None
        return list(found)

    def verb(self) -> str:
        """The first word of a tool's name."""
        return self.dice.choice(_VERBS)

    def name(self) -> str:
        """A tool's name that says nothing about it."""
        return "_".join(self._word("names") or self._made_up() for _ in range(2))

    def result(self) -> str:
        """What a tool may have answered."""
        amount = f"{self.dice.randint(1, 99)} {self.dice.choice(_LISTS['units'])}"
        state = self.dice.choice(_LISTS["states"])
        return self.dice.choice(
            (amount, state, f"{state}, {amount}", f"{state} and {self.dice.choice(_LISTS['states'])}")
        )

    def words(self) -> str:
        """A few words without meaning."""
        return " ".join(
            self._made_up() if self.chance(0.2) else self.dice.choice(WORDS)
            for _ in range(self.dice.randint(1, 3))
        )

    def _word(self, sort: str) -> str:
        kind = self._only or ("made up" if self.chance(0.4) else "practiced")
        return (
            ""
            if kind == "made up"
            else self.dice.choice(_LISTS[sort if kind == "practiced" else f"held_out_{sort}"])
        )

    def _made_up(self) -> str:
        return "".join(self.dice.choices(_LISTS["syllables"], k=self.dice.choice((1, 1, 1, 2))))
