"""English text as the phonemes of Kokoro's voices. Any thread."""

import re
import unicodedata

from mlxctl.engine.speech.english_lexicon import Lexicon, begins_with_vowel
from mlxctl.engine.speech.english_numbers import number_words, ordinal_words, whole_words, year_words

MAX_PHONEMES = 510
"""Most phonemes that a model speaks at once."""

_TOKEN = re.compile(
    r"""(?P<money>[$£€]\d[\d,]*(?:\.\d\d?)?(?!\d))
    | (?P<ordinal>\d+(?:st|nd|rd|th)\b)
    | (?P<year>(?<![\d.,])\d{4}(?![\d]|[.,]\d))
    | (?P<number>\d[\d,]*(?:\.\d+)?|\.\d+)
    | (?P<initials>(?:[^\W\d_]\.){2,})
    | (?P<title>\b(?:Mr|Mrs|Ms|Dr|St|vs|etc)\.)
    | (?P<word>[^\W\d_]+(?:'[^\W\d_]+)*'?)
    | (?P<symbol>[%&+@=])
    | (?P<mark>[;:,.!?—…"“”()])
    | (?P<space>\s+)""",
    re.VERBOSE,
)
_SPELLING = str.maketrans({"‘": "'", "’": "'", "–": "—", "`": "'", "«": "“", "»": "”"})
_SYMBOLS = {"%": "percent", "&": "and", "+": "plus", "@": "at", "=": "equals"}
_UNITS = {"$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent")}
_PLURALS = {"penny": "pence"}
_TITLES = {"st": "saint", "vs": "versus", "etc": "et cetera"}
# What comes before the few words whose sound depends on what they are.
_ROLES = {
    "VERB": "to will can could would should must may might i you he she we they who don't didn't let's",
    "NOUN": "a an the this that my your his her our their its each every no some",
    "VBN": "have has had was were been be is are",
}
_ROLE_AFTER = {word: role for role, words in _ROLES.items() for word in words.split()}
_AMERICAN_T, _GLOTTAL = ("ɾ", "T"), ("ʔ", "t")


def phonemes_of(text: str, lexicon: Lexicon) -> list[str]:
    """Return pieces of at most MAX_PHONEMES, none for a text without words."""
    text = unicodedata.normalize("NFKC", text.translate(_SPELLING)).translate(_SPELLING)
    # Words, marks, and spaces between them; each with whether it is a word.
    tokens = [token for found in _TOKEN.finditer(text) for token in _read(found)]
    sounds: list[str] = []
    next_vowel: bool | None = None
    for place in range(len(tokens) - 1, -1, -1):
        written, is_word = tokens[place]
        if not is_word:
            next_vowel = None if written.strip() else next_vowel
            sounds.append(" " if written.isspace() else written)
            continue
        before = next((word.lower() for word, known in reversed(tokens[:place]) if known), "")
        spoken = lexicon.sounds_of(written, role=_ROLE_AFTER.get(before, "DEFAULT"), next_vowel=next_vowel)
        next_vowel = begins_with_vowel(spoken) if spoken else next_vowel
        sounds.append(spoken)
    spoken_text = " ".join("".join(reversed(sounds)).replace(*_AMERICAN_T).replace(*_GLOTTAL).split())
    return _pieces(spoken_text) if any(char.isalpha() for char in spoken_text) else []


def _read(found: "re.Match[str]") -> list[tuple[str, bool]]:
    """Return the words, marks and spaces of a token."""
    written = found.group()
    match found.lastgroup:
        case "word":
            return [(written, True)]
        case "mark" | "space":
            return [(written, False)]
        case "money":
            words = _money(written[0], written[1:])
        case "ordinal":
            words = ordinal_words(written[:-2])
        case "year":
            words = year_words(written)
        case "number":
            words = number_words(written)
        case "initials":
            words = [letter.upper() for letter in written if letter != "."]
        case "title":
            words = _TITLES.get(written[:-1].lower(), written[:-1]).split()
        case _:
            words = [_SYMBOLS[written]]
    spaced = [token for word in words for token in ((" ", False), (word, True))]
    return spaced if found.lastgroup == "symbol" else spaced[1:]


def _money(sign: str, amount: str) -> list[str]:
    whole, _, cents = amount.replace(",", "").partition(".")
    words: list[str] = []
    for digits, unit in zip((whole, cents.ljust(2, "0") if cents else "0"), _UNITS[sign], strict=True):
        if int(digits) or (not words and unit == _UNITS[sign][0] and not int(cents or 0)):
            plural = _PLURALS.get(unit, f"{unit}s")
            joined = ["and"] if words else []
            words += [*joined, *whole_words(str(int(digits))), unit if int(digits) == 1 else plural]
    return words


def _pieces(phonemes: str) -> list[str]:
    pieces: list[str] = []
    while len(phonemes) > MAX_PHONEMES:
        cut = phonemes.rfind(" ", 0, MAX_PHONEMES)
        cut = cut if cut > 0 else MAX_PHONEMES
        pieces.append(phonemes[:cut].strip())
        phonemes = phonemes[cut:].strip()
    return [*pieces, phonemes]
