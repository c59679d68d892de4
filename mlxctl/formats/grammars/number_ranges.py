"""Regular expressions of decimal numbers within limits, for limits of any size.

llguidance reads limits as 64-bit floats, which hold integers up to 2^53, and has no expression for some
larger ones. Numbers are written here without exponent and with at most 20 decimal places.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf, isinf
from typing import Any

EXACT_INTEGER = 1 << 53
"""Integers up to this absolute value are 64-bit floats."""
_MAX_PLACES = 20
# Longer limits are moved inward, to as many digits as a 64-bit float needs and some more.
_LONG, _KEPT_DIGITS = 10**40, 25
_MAX_MULTIPLES = 512
_ANY_DIGIT = "[0-9]"


def needs_pattern(limits: Mapping[str, Any], *, is_integer: bool) -> bool:
    """Whether llguidance rounds these limits or has no expression for them."""
    if not all(isinstance(limit, int | float) and not isinstance(limit, bool) for limit in limits.values()):
        return False
    if any(abs(limit) > EXACT_INTEGER for limit in limits.values()):
        return bool(limits.get("multipleOf", 1) > 0)
    return bool(limits) and _lacks_expression(json.dumps(number_schema(limits, is_integer=is_integer)))


@lru_cache(maxsize=1024)
def _lacks_expression(schema: str) -> bool:
    from llguidance import LLMatcher

    error_text = LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(schema))
    return "regex" in error_text or "too many digits" in error_text


def number_schema(limits: Mapping[str, Any], *, is_integer: bool) -> dict[str, Any]:
    """Return the schema of numbers within limits."""
    return {"type": "integer" if is_integer else "number", **limits}


def within_floats(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return limits moved inward to exact 64-bit floats, where that is possible."""
    inside = dict(limits)
    for keys, sign in ((("minimum", "exclusiveMinimum"), -1), (("maximum", "exclusiveMaximum"), 1)):
        for key in keys:
            if key in limits and limits[key] * sign > EXACT_INTEGER:
                inside[key] = EXACT_INTEGER * sign
    return inside


def number_pattern(limits: Mapping[str, Any], *, is_integer: bool) -> str | None:
    """Return an expression of the numbers within a schema's limits.

    "" if there are none; None if `multipleOf` has no expression.
    """
    low = max(_bounds(limits, "minimum", "exclusiveMinimum", sign=1))
    high = -max(_bounds(limits, "maximum", "exclusiveMaximum", sign=-1))
    if "multipleOf" not in limits:
        return _numbers(low, high, 0 if is_integer else _MAX_PLACES)
    step = Fraction(str(limits["multipleOf"]))
    if is_integer:
        step = Fraction(step.numerator)
    if (places := _places(step)) is not None:
        return _numbers(low, high, places)
    if isinf(low) or isinf(high) or step.denominator != 1 or high - low > step * _MAX_MULTIPLES:
        return None
    return _one_of(str(factor * step) for factor in range(ceil(low / step), floor(high / step) + 1))


def _bounds(limits: Mapping[str, Any], inclusive: str, exclusive: str, *, sign: int) -> Iterator[Any]:
    """Yield the least number that each limit allows.

    With the sign -1 the limits are those of the negated numbers. They are fractions, or -inf without a limit.
    """
    yield -inf
    for key in (inclusive, exclusive):
        value = limits.get(key)
        if value is None or isinstance(value, bool):
            continue
        least = Fraction(str(value)) * sign
        if abs(least) > EXACT_INTEGER:
            # Validators compare an integer with the digits of a limit or with its 64-bit float.
            least = max(least, Fraction(value) * sign)
        least = _inward(least)
        yield least + Fraction(1, 10**_MAX_PLACES) if key == exclusive else least


def _inward(value: Fraction) -> Fraction:
    """Return the next greater number with fewer digits."""
    if abs(value) < _LONG:
        return Fraction(ceil(value * 10**_MAX_PLACES), 10**_MAX_PLACES)
    unit = 10 ** (len(str(abs(floor(value)))) - _KEPT_DIGITS)
    return Fraction(ceil(value / unit) * unit)


def _places(step: Fraction) -> int | None:
    """Return the decimal places of a power of ten, negative for zeros."""
    for places in range(_MAX_PLACES + 1):
        if step == Fraction(1, 10**places):
            return places
        if step == 10**places:
            return -places
    return None


def _numbers(low: Any, high: Any, places: int) -> str:
    """Return an expression of the numbers from `low` to `high`."""
    scale = Fraction(10) ** places
    first = None if isinf(low) else ceil(low * scale)
    last = None if isinf(high) else floor(high * scale)
    texts: list[str] = []
    if last is None or last >= 0:
        texts += _magnitudes(max(first or 0, 0) if first is None or first > 0 else 0, last, places)
    if first is None or first < 0:
        most = None if first is None else -first
        # With decimal places -0 is written as well, which needs no expression of its own then.
        least = int(places <= 0) if last is None or last >= 0 else -last
        texts += (f"-{text}" for text in _magnitudes(least, most, places))
    return _one_of(texts)


def _magnitudes(first: int, last: int | None, places: int) -> list[str]:
    """Return expressions of the numbers from `first` to `last`.

    Both are in units of the last place.
    """
    if last is not None and first > last:
        return []
    if places <= 0:
        zero = ["0"] if first == 0 else []
        return zero + [text + "0" * -places for text in _integers(max(first, 1), last)]
    unit = 10**places
    whole, rest = divmod(first, unit)
    if last is None:
        begun = [] if rest == 0 else [f"{whole}{_fraction(rest, unit - 1, places)}"]
        return [*begun, *_wholes(whole + (rest > 0), None, places)]
    last_whole, last_rest = divmod(last, unit)
    if whole == last_whole:
        return [f"{whole}{_fraction(rest, last_rest, places)}"]
    begun = [] if rest == 0 else [f"{whole}{_fraction(rest, unit - 1, places)}"]
    ended = [] if last_rest == unit - 1 else [f"{last_whole}{_fraction(0, last_rest, places)}"]
    return [*begun, *_wholes(whole + bool(begun), last_whole - bool(ended), places), *ended]


def _wholes(first: int, last: int | None, places: int) -> list[str]:
    """Return the integers of a range with any decimal places."""
    texts = (["0"] if first == 0 else []) + _integers(max(first, 1), last)
    return [f"{_one_of(texts)}{_fraction(0, 10**places - 1, places)}"] if texts else []


def _integers(first: int, last: int | None) -> list[str]:
    """Return expressions of the positive integers of a range."""
    if last is not None and first > last:
        return []
    low = str(first)
    if last is None:
        return [*_between(low, "9" * len(low)), f"[1-9]{_ANY_DIGIT}{{{len(low)},}}"]
    high = str(last)
    if len(low) == len(high):
        return list(_between(low, high))
    texts = [*_between(low, "9" * len(low)), *_between("1" + "0" * (len(high) - 1), high)]
    if len(high) - len(low) > 1:
        texts.append(f"[1-9]{_ANY_DIGIT}{{{len(low)},{len(high) - 2}}}")
    return texts


def _between(low: str, high: str) -> Iterator[str]:
    """Yield expressions of equally many digits from `low` to `high`."""
    if low == high:
        yield low
    elif set(low) == {"0"} and set(high) == {"9"}:
        yield f"{_ANY_DIGIT}{{{len(low)}}}"
    elif low[0] == high[0]:
        yield from (low[0] + text for text in _between(low[1:], high[1:]))
    else:
        first, last = int(low[0]), int(high[0])
        num_more = len(low) - 1
        if low[1:].strip("0"):
            yield from (low[0] + text for text in _between(low[1:], "9" * num_more))
            first += 1
        if high[1:].strip("9"):
            yield from (high[0] + text for text in _between("0" * num_more, high[1:]))
            last -= 1
        if first <= last:
            yield f"[{first}-{last}]" + (f"{_ANY_DIGIT}{{{num_more}}}" if num_more else "")


def _fraction(first: int, last: int, places: int) -> str:
    """Return an expression of the decimal places from `first` to `last`."""
    low, high = (str(number).zfill(places) for number in (first, last))
    if first and last != 10**places - 1:
        return rf"\.{_one_of(_between(low, high))}"
    if first:
        least = low.rstrip("0")
        texts = [
            f"{low[:place]}[{int(digit) + 1}-9]{_up_to(places - place - 1)}"
            for place, digit in enumerate(least)
            if digit != "9"
        ]
        return rf"\.{_one_of([*texts, least + _up_to(places - len(least))])}"
    if last == 10**places - 1:
        return rf"(\.{_ANY_DIGIT}{{1,{places}}})?"
    texts = [
        f"{high[:place]}[0-{int(digit) - 1}]{_up_to(places - place - 1)}"
        for place, digit in enumerate(high)
        if digit != "0"
    ]
    return rf"(\.{_one_of([*texts, *(high[:place] for place in range(1, places + 1))])})?"


def _up_to(num_digits: int) -> str:
    return f"{_ANY_DIGIT}{{0,{num_digits}}}" if num_digits else ""


def _one_of(texts: Iterable[str]) -> str:
    choices = list(texts)
    return f"({'|'.join(choices)})" if choices else ""
