"""The pronunciation of English words, by misaki's dictionaries. Any thread.

Only the data of this package is used, which is under the Apache License. Its code would download a model of
spaCy, and asks espeak-ng, under the GPL, for unknown words.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from mlxctl.engine.speech.english_letters import guess
from mlxctl.state.installed import file_of

_Entries = dict[str, str | dict[str, str | None]]
_DECODER = msgspec.json.Decoder(_Entries)
_DEFAULT, _AT_THE_END = "DEFAULT", "None"
_VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ")
# Consonants, as in phonetics.
_VOICELESS, _SIBILANTS = frozenset("ptkfθ"), frozenset("szʃʒʧʤ")
# An American `t` between vowels is flapped; misaki writes `ɾ`.
_BEFORE_FLAP = frozenset("AIOWYiuæɑəɛɪɹʊʌ")
_DOUBLED = re.compile(r"([bdgklmnprtvz])\1$")
_WEAK = {"a": "ɐ", "an": "ɐn", "am": "ɐm", "in": "ɪn"}
"""Words whose sound is another before the next word than at the end."""


class Lexicon:
    """Words and their sounds, in misaki's alphabet, American or `british`."""

    def __init__(self, entries: tuple[_Entries, ...], *, british: bool) -> None:
        self._entries = entries
        self._british = british

    def sounds_of(self, word: str, *, role: str, next_vowel: bool | None) -> str:
        """Return the sounds of a word of letters and apostrophes.

        They are empty for other scripts. `role` is NOUN, VERB, VBN or DEFAULT, where the same letters sound
        differently. `next_vowel` is whether the next word begins with a vowel, None where no word follows.
        """
        small = word.lower()
        if next_vowel is not None and small in _WEAK and not (word == "A" and role == _AT_THE_END):
            return _WEAK[small]
        if small == "the":
            return "ði" if next_vowel else "ðə"
        if small == "to" and next_vowel is not None:
            return "tʊ" if next_vowel else "tə"
        if word == "I":
            return "ˌI"
        role = _AT_THE_END if next_vowel is None and role == _DEFAULT else role
        plain = _plain(word)
        return self._known(plain, role) or self._inflected(plain, role) or self._unknown(plain)

    def _known(self, word: str, role: str) -> str | None:
        for entries in self._entries:
            for spelling in (word, word.lower(), word.capitalize()):
                found = entries.get(spelling)
                if isinstance(found, Mapping):
                    found = found.get(role) or found[_DEFAULT]
                if found:
                    return found
        return None

    def _inflected(self, word: str, role: str) -> str | None:
        """Return the sounds of a known word with an ending."""
        small = word.lower()
        for ending, add in (("'s", self._plural), ("s'", self._plural), ("s", self._plural)):
            if small.endswith(ending):
                stems = [word[: -len(ending)]]
                stems += [word[:-2]] if small.endswith("es") else []
                stems += [f"{word[:-3]}y"] if small.endswith("ies") else []
                if found := self._first_known(stems, role):
                    return add(found)
        for ending, with_ending in (("ed", self._past), ("ing", self._participle)):
            if small.endswith(ending) and len(word) > len(ending) + 1:
                stem = word[: -len(ending)]
                if found := self._first_known([f"{stem}e", stem, _DOUBLED.sub(r"\1", stem)], role):
                    return with_ending(found)
        return None

    def _first_known(self, stems: list[str], role: str) -> str | None:
        found = (self._known(stem, role) for stem in stems if len(stem) > 1)
        return next((sounds for sounds in found if sounds), None)

    def _plural(self, stem: str) -> str:
        """Return the phonemes of a stem with the ending -s."""
        if stem[-1] in _SIBILANTS:
            return f"{stem}{'ɪ' if self._british else 'ᵻ'}z"
        return f"{stem}{'s' if stem[-1] in _VOICELESS else 'z'}"

    def _past(self, stem: str) -> str:
        """Return the phonemes of a stem with the ending -ed."""
        if stem[-1] in "td":
            return f"{self._flapped(stem)}{'ɪ' if self._british else 'ᵻ'}d"
        return f"{stem}{'t' if stem[-1] in _VOICELESS | set('sʃʧ') else 'd'}"

    def _participle(self, stem: str) -> str:
        """Return the phonemes of a stem with the ending -ing."""
        return f"{self._flapped(stem)}ɪŋ"

    def _flapped(self, stem: str) -> str:
        is_flapped = not self._british and len(stem) > 1 and stem[-1] == "t" and stem[-2] in _BEFORE_FLAP
        return f"{stem[:-1]}ɾ" if is_flapped else stem

    def _unknown(self, word: str) -> str:
        """Return the sounds of two known words, of letters, or a guess."""
        letters = "".join(char for char in word if char.isascii() and char.isalpha())
        if (letters.isupper() and len(letters) < 6) or not _has_vowel(letters):
            return self.spelled(letters)
        small = letters.lower()
        for place in range(len(small) - 3, 2, -1):
            first, second = self._known(small[:place], _DEFAULT), self._known(small[place:], _DEFAULT)
            if first and second:
                return first + second.replace("ˈ", "ˌ")
        sounds = guess(small)
        return sounds.replace("O", "Q") if self._british else sounds

    def spelled(self, letters: str) -> str:
        """Return the names of letters."""
        names = [self._known(letter.upper(), _DEFAULT) or "" for letter in letters]
        *first, last = names or [""]
        return "".join(name.replace("ˈ", "ˌ") for name in first) + last


def begins_with_vowel(sounds: str) -> bool:
    """Return whether the first sound is a vowel."""
    first = next((sound for sound in sounds if sound not in "ˈˌ"), "")
    return first in _VOWELS or first == "ɐ"


def data_folder() -> Path | None:
    """Return the folder of the dictionaries, None without the package."""
    package = file_of("misaki")
    return None if package is None else package.parent / "data"


@cache
def open_lexicon(*, british: bool) -> Lexicon:
    """Read the dictionaries: 180,000 words. Raises OSError, ValueError."""
    folder = data_folder()
    if folder is None:
        raise FileNotFoundError("misaki is not installed")
    names = ("gb_gold", "gb_silver") if british else ("us_gold", "us_silver")
    entries = tuple(_DECODER.decode((folder / f"{name}.json").read_bytes()) for name in names)
    return Lexicon(entries, british=british)


def _has_vowel(letters: str) -> bool:
    return any(letter in "aeiouyAEIOUY" for letter in letters)


def _plain(word: str) -> str:
    """Return a word without accents, which the dictionaries do not have."""
    return "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
