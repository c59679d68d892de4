"""Words and values for generated conversations, split into trained and held-out ones."""

import random
import string
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

_HELD_OUT_EVERY = 7
_OTHER_LETTERS = "äöüßéèñçøåłżšãôжяд日本語你好🙂🚀"


def _read(file_name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / file_name).read_text(encoding="utf-8"))


class Lexicon:
    """Draws values from one side of the split, by seed.

    Listed words of one side never occur on the other. Invented words are drawn from syllables and letters, so
    they rarely repeat on either side.
    """

    def __init__(self, seed: int, *, held_out: bool) -> None:
        self.dice = random.Random(seed)
        self.held_out = held_out
        lists = _read("lexicon.toml")
        self._system_prompts: list[str] = self._side(lists.pop("system_prompts"))
        self._lists = {
            key: self._side([entry.strip() for entry in text.split(",")]) for key, text in lists.items()
        }
        self._phrases: dict[str, list[str]] = _read("phrases.toml")
        self._kinds: dict[str, Callable[[], Any]] = {
            "city": self.city, "name": self.name, "word": self.word, "phrase": self.phrase,
            "command": self.command, "path": self.path, "number": self.number,
            "count": lambda: self.dice.randint(1, 20), "sum": self.sum, "ticker": self.ticker,
            "language": lambda: self.pick("languages"), "code": self.code, "title": self.title,
            "url": self.url, "unit": lambda: self.dice.choice(("celsius", "fahrenheit")),
        }  # fmt: skip

    def _side(self, entries: list[str]) -> list[str]:
        return [
            entry for index, entry in enumerate(entries) if (index % _HELD_OUT_EVERY == 3) == self.held_out
        ]

    def value(self, kind: str) -> Any:
        """Draw a value of a kind that tools.toml names."""
        return self._kinds[kind]()

    def chance(self, probability: float) -> bool:
        return self.dice.random() < probability

    def pick(self, list_name: str) -> str:
        """Draw a word from a list of lexicon.toml.

        Only from this side of the split.
        """
        return self.dice.choice(self._lists[list_name])

    def form(self, *list_names: str) -> str:
        """Draw a phrase from lists of phrases.toml, its {slots} still open.

        Phrases are not split.
        """
        return self.dice.choice([phrase for name in list_names for phrase in self._phrases[name]])

    def invented(self) -> str:
        """Return a made-up word.

        Of syllables, of halves of two words, or of random letters.
        """
        kind = self.dice.choice(("syllables", "syllables", "halves", "halves", "letters"))
        if kind == "letters":
            alphabet = string.ascii_lowercase + (_OTHER_LETTERS if self.chance(0.25) else "")
            return "".join(self.dice.choices(alphabet, k=self.dice.randint(2, 9)))
        if kind == "syllables":
            return "".join(self.pick("syllables") for _ in range(self.dice.choice((2, 2, 3, 3, 4))))
        front, back = (
            self.pick(self.dice.choice(("nouns", "cities", "names", "topics"))).lower() for _ in range(2)
        )
        word = front[: self.dice.randint(2, 5)] + back[-self.dice.randint(2, 5) :]
        return "".join(letter for letter in word if letter.isalpha())

    def noun(self) -> str:
        return self.pick("nouns") if self.chance(0.6) else self.invented()

    def city(self) -> str:
        return self.pick("cities") if self.chance(0.65) else self.invented().capitalize()

    def name(self) -> str:
        return self.pick("names") if self.chance(0.7) else self.invented().capitalize()

    def word(self) -> str:
        """Draw a codeword: mostly lower case, sometimes upper case or with digits."""
        word = self.noun()
        return self.dice.choice(
            (word, word, word, word, word.upper(), word.capitalize(), f"{word}-{self.number()}")
        )

    def phrase(self) -> str:
        words = [self.noun() for _ in range(self.dice.choice((1, 2, 2, 3, 4)))]
        if self.chance(0.4):
            words.insert(self.dice.randrange(len(words)), self.pick("adjectives"))
        if self.chance(0.15):
            words.insert(len(words) // 2, self.dice.choice(("of", "and", "in", "for", "the", "with")))
        return " ".join(words)

    def title(self) -> str:
        return " ".join(self.noun().capitalize() for _ in range(self.dice.choice((1, 2, 2))))

    def number(self) -> int:
        return self.dice.randrange(10 ** self.dice.choice((1, 2, 2, 3, 4, 5)))

    def code(self) -> str:
        letters = "".join(self.dice.choices(string.ascii_uppercase, k=self.dice.randint(1, 3)))
        return f"{letters}{self.dice.choice(('', '-'))}{self.number()}"

    def ticker(self) -> str:
        return "".join(self.dice.choices(string.ascii_uppercase, k=self.dice.randint(3, 4)))

    def sum(self) -> str:
        sign = self.dice.choice("+-*/")
        return self.dice.choice(
            (f"{self.number()} {sign} {self.number()}", f"{self.number()}{sign}{self.number()}")
        )

    def command(self) -> str:
        return self.form("commands").format(w=self.noun(), v=self.noun())

    def path(self) -> str:
        return self.form("paths").format(w=self.noun(), v=self.noun())

    def url(self) -> str:
        ending = self.dice.choice(("com", "org", "net"))
        return f"https://{self.noun()}.{ending}" + (f"/{self.noun()}" if self.chance(0.4) else "")

    def system_prompt(self) -> str:
        """Draw a system prompt, sometimes with up to six sentences after it."""
        prompt = self.dice.choice(self._system_prompts)
        if self.chance(0.25):
            prompt += " " + " ".join(self.sentence() for _ in range(self.dice.choice((1, 1, 2, 3, 6))))
        return prompt

    def sentence(self) -> str:
        """Draw a filler sentence, irrelevant for the task."""
        return self.form("fillers").format(
            adjective=self.pick("adjectives"), noun=self.noun(), other=self.noun(), name=self.name(),
            number=self.number(), city=self.city(),
        )  # fmt: skip
