"""The words of the examples.

A held-out word occurs only in requests to repeat it, never in a call: a correct call with it was copied.
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

Kind = Literal["trained", "held out", "made up"]
KINDS: tuple[Kind, ...] = ("trained", "held out", "made up")


class Lexicon:
    """Draws words from a seed: trained ones and made-up ones.

    With `only`, cities, topics and names of one kind.
    """

    def __init__(self, seed: int, *, only: Kind | None = None) -> None:
        self.dice = random.Random(seed)
        self._only = only

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.dice.random() < probability

    def place(self) -> str:
        """Return the name of a city."""
        return self._word("places") or self._made_up()

    def topics(self, number: int) -> list[str]:
        """Return different topics of questions."""
        found: dict[str, None] = {}
        while len(found) < number:
            found[self._word("topics") or self._made_up()] = None
        return list(found)

    def verb(self) -> str:
        """Return the first word of a tool's name."""
        return self.dice.choice(_VERBS)

    def name(self) -> str:
        """Return a tool's name that does not tell its purpose."""
        return "_".join(self._word("names") or self._made_up() for _ in range(2))

    def result(self) -> str:
        """Return a tool result."""
        amount = f"{self.dice.randint(1, 99)} {self.dice.choice(_LISTS['units'])}"
        state = self.dice.choice(_LISTS["states"])
        return self.dice.choice(
            (amount, state, f"{state}, {amount}", f"{state} and {self.dice.choice(_LISTS['states'])}")
        )

    def words(self) -> str:
        """Return a few random words."""
        return " ".join(
            self._made_up() if self.chance(0.2) else self.dice.choice(WORDS)
            for _ in range(self.dice.randint(1, 3))
        )

    def _word(self, sort: str) -> str:
        kind = self._only or ("made up" if self.chance(0.4) else "trained")
        return (
            ""
            if kind == "made up"
            else self.dice.choice(_LISTS[sort if kind == "trained" else f"held_out_{sort}"])
        )

    def _made_up(self) -> str:
        return "".join(self.dice.choices(_LISTS["syllables"], k=self.dice.choice((1, 1, 1, 2))))
