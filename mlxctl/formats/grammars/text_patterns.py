"""Strings of a schema as regular expressions.

They describe the text in a notation, in the syntax of llguidance's terminals.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mlxctl.formats.grammars.errors import UnsupportedSchema, one_line
from mlxctl.formats.grammars.schema_branches import Schema

_ANY = r"[\s\S]"
_DAY = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_BYTE = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_CODE_POINT = re.compile(r"\\x\{([0-9a-f]+)\}")
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
# Only days that every month has: the pattern accepts no invalid date.
_FORMATS = {
    "date": _DAY,
    "time": _TIME,
    "date-time": f"{_DAY}T{_TIME}",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "ipv4": rf"{_BYTE}(\.{_BYTE}){{3}}",
    "email": rf"[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@{_LABEL}(\.{_LABEL})+",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoting:
    """How a notation writes strings.

    A character between the marks is one `unit`; `plain` characters stand for themselves. The `excluded`
    regular expressions must not match anywhere: the parser would end the string there.
    """

    left: str
    right: str
    unit: str = _ANY
    plain: str = _ANY
    excluded: tuple[str, ...] = ()


RAW = Quoting(left="", right="")
# A lone surrogate is no character, so it is never a unit.
_CODE = r"\\u([0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"
JSON_STRING = Quoting(
    left='"', right='"', unit=rf'([^"\\\x00-\x1f\x7f]|\\["\\bfnrt]|{_CODE})', plain=r'[^"\\\x00-\x1f\x7f]'
)
PYTHON_STRING = Quoting(
    left="'", right="'", unit=rf"([^'\\\x00-\x1f\x7f]|\\['\"\\bfnrt]|{_CODE})", plain=r"[^'\\\x00-\x1f\x7f]"
)


def string_content(branch: Schema, quoting: Quoting, *, is_strict: bool) -> str:
    """Return the expression of a matching string's content.

    Raises UnsupportedSchema for unsupported keywords.
    """
    expressions = [regex(quoting.unit + _times(branch.get("minLength", 0), branch.get("maxLength")))]
    for pattern in _patterns(branch, is_strict=is_strict):
        expressions += [regex(f"{quoting.plain}*"), regex(pattern)]
    if quoting.excluded:
        expressions.append(f"~{matching_somewhere(quoting.excluded)}")
    return " & ".join(dict.fromkeys(expressions))


def escaped(text: str, quoting: Quoting) -> str | None:
    """Return the content for exactly this text, None if impossible."""
    content = text
    if quoting.unit != _ANY:
        content = json.dumps(text, ensure_ascii=False)[1:-1]
        content = content.replace('\\"', '"').replace("'", "\\'") if quoting.right == "'" else content
    is_whole = not any("\ud800" <= char <= "\udfff" for char in text)
    return content if is_whole and not _matches_any(content, quoting.excluded) else None


def containing(texts: Iterable[str]) -> str:
    """Return the expression of texts that contain one of these."""
    return matching_somewhere(map(literally, texts))


def matching_somewhere(patterns: Iterable[str]) -> str:
    """Return the expression of texts in which one of these patterns occurs."""
    return regex(f"{_ANY}*({'|'.join(patterns)}){_ANY}*")


def text_without(texts: Sequence[str], *, first: str = "") -> str:
    """Return the expression of texts that contain none of these.

    They do not begin with one of `first` either.
    """
    expression = regex(f"{_ANY}*") + (f" & ~{containing(texts)}" if texts else "")
    return expression + (" & ~" + regex(rf"\s*({'|'.join(map(literally, first))}){_ANY}*") if first else "")


def literally(text: str) -> str:
    """Return a regular expression of one text."""
    return "".join(char if char.isascii() and char.isalnum() else rf"\x{{{ord(char):x}}}" for char in text)


def _matches_any(text: str, patterns: Iterable[str]) -> bool:
    # Python has no code points in braces.
    plain = (
        _CODE_POINT.sub(lambda found: re.escape(chr(int(found[1], 16))), pattern) for pattern in patterns
    )
    return any(re.search(pattern, text) for pattern in plain)


def _patterns(branch: Schema, *, is_strict: bool) -> Iterable[str]:
    patterns = branch.get("pattern", ())
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        try:
            yield _unanchored(pattern)
        except UnsupportedSchema:
            if is_strict:
                raise
    if (name := branch.get("format")) is not None:
        if name in _FORMATS:
            yield _FORMATS[name]
        elif is_strict:
            raise UnsupportedSchema(
                f"the format {name!r} cannot be enforced in this model's calls; "
                f"these can: {', '.join(_FORMATS)}"
            )


@lru_cache(maxsize=256)
def _unanchored(pattern: str) -> str:
    """Return the expression of texts in which a JSON schema pattern occurs."""
    from llguidance import LLMatcher

    begins, ends = pattern.startswith("^"), re.search(r"(?<!\\)(\\\\)*\$\Z", pattern) is not None
    inner = pattern[begins : len(pattern) - ends]
    if (begins or ends) and "|" in re.sub(r"\\.|\[(\\.|[^\]])*\]|\((\\.|[^()])*\)", "", inner):
        raise UnsupportedSchema(
            f"the pattern {pattern!r} has alternatives beside an anchor; put them in parentheses"
        )
    whole = f"{'' if begins else _ANY + '*'}({inner}){'' if ends else _ANY + '*'}"
    if error_text := LLMatcher.validate_grammar(LLMatcher.grammar_from_regex(whole)):
        raise UnsupportedSchema(
            f"the pattern {pattern!r} cannot be enforced in this model's calls: {one_line(error_text)}"
        )
    return whole


def _times(least: int, most: int | None) -> str:
    return "*" if not least and most is None else f"{{{least},{'' if most is None else most}}}"


def regex(pattern: str) -> str:
    """Return a pattern in a terminal's syntax."""
    return (
        "/"
        + re.sub(r"(\\.)|/", lambda found: found[1] or r"\/", pattern, flags=re.DOTALL).replace("\n", r"\n")
        + "/"
    )
