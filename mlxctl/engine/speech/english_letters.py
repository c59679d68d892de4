"""Sounds of English words that are in no dictionary. Pure.

They are guessed by the letters. The alphabet is that of misaki: `A I O W Y` are diphthongs, `ʧ ʤ` affricates.
"""

import re

# The longest group of letters that matches is read first. A group may depend on its place: `^` begins a
# word, `$` ends one, and what follows in parentheses is not read.
_GROUPS = {
    "tion$": "ʃən", "sion$": "ʒən", "tions$": "ʃənz", "cious$": "ʃəs", "tious$": "ʃəs", "ture$": "ʧəɹ",
    "ough": "O", "augh": "ɔ", "eigh": "A", "igh": "I", "tch": "ʧ", "sch": "sk", "dge": "ʤ", "que$": "k",
    "eau": "O", "ous$": "əs", "ing$": "ɪŋ", "ed$": "d", "es$": "z", "le$": "ᵊl", "er$": "əɹ", "or$": "əɹ",
    "ar$": "əɹ", "age$": "ɪʤ", "ch": "ʧ", "ck": "k", "sh": "ʃ", "th": "θ", "ph": "f", "wh": "w", "gh": "ɡ",
    "ng$": "ŋ", "ng(k)": "ŋ", "qu": "kw", "^kn": "n", "^wr": "ɹ", "^ps": "s", "^gn": "n", "mb$": "m",
    "ss": "s", "ll": "l", "tt": "t", "pp": "p", "bb": "b", "dd": "d", "ff": "f", "gg": "ɡ", "mm": "m",
    "nn": "n", "rr": "ɹ", "zz": "z", "cc(e)": "ks", "cc(i)": "ks", "cc": "k", "sc(e)": "s", "sc(i)": "s",
    "c(e)": "s", "c(i)": "s", "c(y)": "s", "g(e)": "ʤ", "g(i)": "ʤ", "g(y)": "ʤ", "air": "ɛɹ", "are$": "ɛɹ",
    "ear": "ɪɹ", "eer": "ɪɹ", "ier": "ɪɹ", "ire": "Iəɹ", "ore": "ɔɹ", "oor": "ɔɹ", "our": "ɔɹ", "ure": "jʊɹ",
    "ar": "ɑɹ", "er": "ɜɹ", "ir": "ɜɹ", "or": "ɔɹ", "ur": "ɜɹ", "ai": "A", "ay": "A", "au": "ɔ", "aw": "ɔ",
    "ea": "i", "ee": "i", "ei": "A", "ey$": "i", "ey": "A", "eu": "u", "ew": "u", "ia$": "iə", "ie$": "i",
    "ie": "i", "oa": "O", "oe": "O", "oi": "Y", "oy": "Y", "oo": "u", "ou": "W", "ow$": "O", "ow": "W",
    "ue$": "u", "ui": "u", "y$": "i", "^y": "j", "e$": "", "a$": "ə", "o$": "O", "i$": "i", "^x": "z",
    "b": "b", "c": "k", "d": "d", "f": "f", "g": "ɡ", "h": "h", "j": "ʤ", "k": "k", "l": "l", "m": "m",
    "n": "n", "p": "p", "q": "k", "r": "ɹ", "s": "s", "t": "t", "v": "v", "w": "w", "x": "ks", "z": "z",
    "a": "æ", "e": "ɛ", "i": "ɪ", "o": "ɑ", "u": "ʌ", "y": "ɪ",
}  # fmt: skip
# A vowel before one consonant and a last `e`, as in `bake`.
_LONG = {"a": "A", "e": "i", "i": "I", "o": "O", "u": "u", "y": "I"}
_SILENT_E = re.compile(r"([aeiouy])(?=[bcdfgklmnpstvz]e$)")
_VOWEL = re.compile(r"[AIOWYaiuæɑəɛɜɪɔʊʌ]")


def _pattern(group: str) -> str:
    letters = group.strip("^$")
    read, _, following = letters.partition("(")
    start, end = "^" * group.startswith("^"), "$" * group.endswith("$")
    return f"{start}{read}(?={following[:-1]}){end}" if following else f"{start}{read}{end}"


_RULES = [
    (re.compile(_pattern(group)), sound)
    for group, sound in sorted(_GROUPS.items(), key=lambda item: -len(item[0].strip("^$")))
]


def guess(word: str) -> str:
    """Return the sounds of a word in letters from a to z.

    The stress is on its first vowel.
    """
    sounds, place = "", 0
    while place < len(word):
        if (long := _SILENT_E.match(word, place)) is not None:
            sounds, place = sounds + _LONG[long[1]], place + 1
            continue
        for pattern, sound in _RULES:
            if pattern.pattern.startswith("^") and place:
                continue
            if (found := pattern.match(word, place)) is not None:
                sounds, place = sounds + sound, found.end()
                break
        else:
            place += 1
    return _VOWEL.sub(lambda vowel: f"ˈ{vowel[0]}", sounds, count=1)
