"""Numbers in English words. Pure."""

_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_GROUPS = ("", "thousand", "million", "billion", "trillion")
_MAX_DIGITS = 3 * len(_GROUPS)
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
_FIRST_YEAR, _LAST_YEAR = 1100, 2099


def number_words(digits: str) -> list[str]:
    """Return the words of a decimal number, such as `1,024.5` or `.5`.

    Too many digits are read one by one.
    """
    whole, _, part = digits.replace(",", "").partition(".")
    words = whole_words(whole) if whole else []
    return [*words, "point", *map(_digit, part)] if part else words


def whole_words(digits: str) -> list[str]:
    """Return the words of a whole number.

    With leading zeros it is read digit by digit.
    """
    if len(digits) > _MAX_DIGITS or (digits[0] == "0" and len(digits) > 1):
        return [_digit(digit) for digit in digits]
    value, words = int(digits), []
    for power in range(len(_GROUPS) - 1, -1, -1):
        group = value // 1000**power % 1000
        if group:
            words += [*_below_thousand(group), *filter(None, [_GROUPS[power]])]
    return words or ["zero"]


def ordinal_words(digits: str) -> list[str]:
    """Return the words of `1st`, `22nd` and so on, without the ending."""
    *words, last = whole_words(digits)
    if last in _ORDINALS:
        return [*words, _ORDINALS[last]]
    return [*words, f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"]


def year_words(digits: str) -> list[str]:
    """Return the words of four digits, which may be a year."""
    value = int(digits)
    century, rest = divmod(value, 100)
    if not _FIRST_YEAR <= value <= _LAST_YEAR or (century == 20 and rest < 10):
        return whole_words(digits)
    if not rest:
        return [*_below_thousand(century), "hundred"]
    return [*_below_thousand(century), *(["oh"] if rest < 10 else []), *_below_thousand(rest)]


def _below_thousand(value: int) -> list[str]:
    words = []
    if value >= 100:
        words += [_SMALL[value // 100], "hundred"]
        value %= 100
    if value >= 20:
        words.append(_TENS[value // 10 - 2])
        value %= 10
        if not value:
            return words
    return [*words, _SMALL[value]] if value or not words else words


def _digit(digit: str) -> str:
    return _SMALL[int(digit)]
