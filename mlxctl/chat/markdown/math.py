"""LaTeX math as one or more lines of Unicode text.

Nothing is left out: an unknown command stays as it is written, and what cannot be written in Unicode gets
parentheses, such as `(a + b)/c` or `x^(a/b)`. Pure.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache

from mlxctl.chat.markdown.math_symbols import (
    ACCENTS,
    ALPHABETS,
    FUNCTIONS,
    OPERATORS,
    SUBSCRIPTS,
    SUPERSCRIPTS,
    SYMBOLS,
    in_alphabet,
    words,
)

MAX_CHARACTERS = 4000
"""Longer math is shown as it is written."""

# Deeper nesting is shown as it is written.
_MAX_NESTING = 30
_TOKEN = re.compile(r"\\(?:[A-Za-z]+\*?|\s+|.)|\s+|.", re.DOTALL)
_SPACES = {
    "\\,": " ",
    "\\;": " ",
    "\\:": " ",
    "\\>": " ",
    "\\!": "",
    "\\quad": "  ",
    "\\qquad": "    ",
    "\\enspace": " ",
    "\\thinspace": " ",
    "~": " ",
}
_IGNORED = words(
    """displaystyle textstyle scriptstyle limits nolimits big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr
    Biggl Biggr bigm middle nonumber notag hline mathstrut strut null allowbreak"""
)
_FONTS = words(
    """text textrm textit textbf texttt textsf textnormal mbox hbox mathrm mathit mathbf mathsf mathtt
    mathnormal boldsymbol bm pmb operatorname operatorname* mathop mathbin mathrel mathord mathopen mathclose
    cancel bcancel ensuremath smash"""
)
# Their arguments are not shown.
_SETTINGS = words("color textcolor label hspace vspace hspace* vspace* phantom hphantom vphantom mspace")
_FRACTIONS = words("frac dfrac tfrac cfrac")
_ROOTS = {"": "√", "2": "√", "3": "∛", "4": "∜"}
_BRACKETS = {"p": "()", "b": "[]", "B": "{}", "v": "||", "V": "‖‖", "": ("", ""), "small": ("", "")}
_MATRIX = re.compile(r"(p|b|B|v|V|small|)matrix\*?")
_INSIDE = re.compile(r"(?<=[(\[{⟨]) | (?=[)\]}⟩])")
# One factor or function of one, which needs no parentheses.
_FACTOR = re.compile(r"-?[√∛∜]?(?:[^\W_]|[.,°′%$\u0300-\u036f\u20d7])+")
_PRODUCT = re.compile(r"\d[^\W\d_]")
_SCRIPTS = "".join({*SUPERSCRIPTS.values(), *SUBSCRIPTS.values()})


@lru_cache(maxsize=256)
def math_text(source: str, *, is_display: bool = False) -> str | None:
    """Return LaTeX math as text; None where it cannot be read.

    Rows of an environment are lines with `is_display`, and are separated by semicolons without.
    """
    if len(source) > MAX_CHARACTERS:
        return None
    reader = _Reader(source, row_end="\n" if is_display else "; ")
    try:
        text = reader.sequence()
    except _UnreadableError:
        return None
    lines = (_INSIDE.sub("", " ".join(line.split())) for line in text.split("\n"))
    return unicodedata.normalize("NFC", "\n".join(line for line in lines if line)) or None


class _UnreadableError(ValueError):
    """The source has unbalanced braces, or is nested too deep."""


class _Reader:
    """Reads tokens of one formula from left to right."""

    def __init__(self, source: str, *, row_end: str) -> None:
        self._tokens = _TOKEN.findall(source)
        self._index = 0
        self._depth = 0
        self._row_end = row_end
        self._commands: Mapping[str, Callable[[], str]] = {
            **dict.fromkeys(_FRACTIONS, self._fraction),
            "binom": self._binomial,
            "dbinom": self._binomial,
            "tbinom": self._binomial,
            "sqrt": self._root,
            "boxed": lambda: f"[{self._argument()}]",
            "fbox": lambda: f"[{self._argument()}]",
            "tag": lambda: f"  ({self._argument()})",
            "pmod": lambda: f" (mod {self._argument()})",
            "bmod": lambda: " mod ",
            "overset": lambda: self._stacked("^"),
            "stackrel": lambda: self._stacked("^"),
            "underset": lambda: self._stacked("_"),
            "xrightarrow": lambda: f" →{self._script('^')} ",
            "xleftarrow": lambda: f" ←{self._script('^')} ",
            "not": lambda: f" {self._argument().strip()}\u0338 ",
            "begin": self._environment,
            "left": self._delimiter,
            "right": self._delimiter,
            "substack": self._argument,
            "underbrace": lambda: _factor(self._argument()),
            "overbrace": lambda: _factor(self._argument()),
            "ce": self._chemistry,
        }

    def sequence(self, end: str = "") -> str:
        """Return the text up to the token `end`, which is taken too."""
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise _UnreadableError
        shown = ""
        while (sign := self._next()) != end:
            if sign in ("", "}"):
                raise _UnreadableError
            part = self._part(sign)
            if _needs_space(shown, sign, part):
                part = f" {part}"
            elif shown.endswith((" ", "(", "[", "{")):
                part = part.lstrip(" ")
            shown += part
        self._depth -= 1
        return shown

    def _next(self) -> str:
        sign = self._peek()
        self._index += 1
        return sign

    def _peek(self) -> str:
        return self._tokens[self._index] if self._index < len(self._tokens) else ""

    def _part(self, sign: str) -> str:
        """Return the text of a token and its arguments."""
        if sign == "{":
            return self.sequence("}")
        if sign in ("^", "_"):
            return self._script(sign)
        if sign == "'":
            return "′"
        if sign == "&":
            return " "
        if sign in ("\\\\", "\\newline", "\\cr"):
            if self._peek() == "[":
                self._optional()
            return self._row_end
        if sign in _SPACES:
            return _SPACES[sign]
        if sign.isspace():
            return " "
        return self._command(sign) if sign.startswith("\\") else sign

    def _command(self, sign: str) -> str:
        name = sign[1:]
        if not name[:1].isalpha():
            # `\{` is a brace, `\|` a double line.
            return "‖" if name == "|" else name if name.strip() else " "
        if name in self._commands:
            return self._commands[name]()
        if name in OPERATORS:
            return f" {OPERATORS[name]} "
        if name in SYMBOLS:
            return SYMBOLS[name]
        if name in FUNCTIONS:
            return name
        if name in _IGNORED:
            return ""
        if name in _FONTS:
            return self._argument(keeps_spaces=True)
        if name in ALPHABETS:
            return "".join(in_alphabet(letter, ALPHABETS[name]) for letter in self._argument())
        if name in ACCENTS:
            return self._accented(name)
        if name in _SETTINGS:
            self._argument()
            return " " if "space" in name else ""
        if self._peek() == "{":
            return f"{sign}{{{self._argument()}}}"
        return sign

    def _argument(self, *, keeps_spaces: bool = False) -> str:
        """Return the next group or token."""
        while self._peek().isspace():
            self._next()
        sign = self._next()
        if sign in ("", "}"):
            raise _UnreadableError
        text = self._part(sign)
        return text if keeps_spaces else text.strip(" ")

    def _optional(self) -> str:
        """Return an argument in brackets; empty without one."""
        if self._peek() != "[":
            return ""
        self._next()
        return self.sequence("]").strip()

    def _fraction(self) -> str:
        above, below = self._argument(), self._argument()
        # `1/2a` would be read as half of a.
        bottom = f"({below})" if _PRODUCT.match(below) else _factor(below)
        return f"{_factor(above)}/{bottom}{self._space_before_factor()}"

    def _space_before_factor(self) -> str:
        """Return a space where the next sign would seem to belong here."""
        return " " if re.match(r"\w|\\[A-Za-z]|\(", self._peek()) else ""

    def _binomial(self) -> str:
        return f"C({self._argument()}, {self._argument()})"

    def _root(self) -> str:
        degree, inside = self._optional(), self._argument()
        sign = _ROOTS.get(degree) or f"{_scripted('^', degree)}√"
        if len(inside) > 1 and not inside.isdigit():
            return f"{sign}({inside})"
        return f"{sign}{inside}{self._space_before_factor()}"

    def _script(self, mark: str) -> str:
        return _scripted(mark, self._argument())

    def _stacked(self, mark: str) -> str:
        above, base = self._argument(), self._argument()
        is_operator = base in OPERATORS.values() or base in "=<>"
        stacked = f"{base}{_scripted(mark, above)}"
        return f" {stacked} " if is_operator else stacked

    def _accented(self, name: str) -> str:
        base = self._argument()
        if len(base) == 1:
            return f"{base}{ACCENTS[name]}"
        if name in ("overline", "underline"):
            return "".join(f"{letter}{ACCENTS[name]}" for letter in base)
        return f"{name.removeprefix('wide')}({base})"

    def _delimiter(self) -> str:
        """Return the sign after `\\left` or `\\right`; a dot is none."""
        text = self._argument()
        return "" if text == "." else text

    def _environment(self) -> str:
        name = self._argument()
        if name.startswith("array") or name.rstrip("*") == "alignat":
            if self._peek() == "{":
                self._argument()
        elif self._peek() == "[":
            self._optional()
        rows = self._rows(name)
        if name.rstrip("*") in ("cases", "dcases"):
            return "{ " + "; ".join(", ".join(cell for cell in row if cell) for row in rows) + " "
        if name.startswith("array") or _MATRIX.fullmatch(name):
            start, end = _BRACKETS[name.rstrip("*").removesuffix("matrix")] if "matrix" in name else ("", "")
            inner = "; ".join(" ".join(row) for row in rows)
            return f"{start}{inner}{end}"
        return self._row_end.join(" ".join(row) for row in rows)

    def _rows(self, name: str) -> list[list[str]]:
        """Return the cells of an environment, up to its end."""
        rows: list[list[str]] = [[""]]
        while True:
            sign = self._next()
            if sign == "":
                raise _UnreadableError
            if sign == "\\end":
                if self._argument() != name:
                    raise _UnreadableError
                break
            if sign == "\\\\":
                self._optional()
                rows.append([""])
            elif sign == "&":
                rows[-1].append("")
            else:
                part = self._part(sign)
                cell = rows[-1][-1]
                rows[-1][-1] = f"{cell}{' ' * _needs_space(cell, sign, part)}{part}"
        stripped = [[" ".join(cell.split()) for cell in row] for row in rows]
        return [row for row in stripped if any(row)]

    def _chemistry(self) -> str:
        """Return a chemical formula: digits after letters are subscripts."""
        formula = self._argument().replace("->", " → ").replace("<=>", " ⇌ ")
        return re.sub(r"(?<=[A-Za-z)\]])\d+", lambda found: _scripted("_", found[0]), formula)


def _needs_space(before: str, sign: str, part: str) -> bool:
    """Whether a function or fraction would run into a letter or digit."""
    name = re.search(r"[a-zA-Z]+$", before)
    is_argument = name is not None and name[0] in FUNCTIONS and sign not in "^_" and part[:1].isalnum()
    return is_argument or (before[-1:].isalnum() and (sign[1:] in FUNCTIONS or sign[1:] in _FRACTIONS))


def _scripted(mark: str, text: str) -> str:
    """Return a superscript (`^`) or a subscript (`_`)."""
    letters = SUPERSCRIPTS if mark == "^" else SUBSCRIPTS
    packed = text.replace(" ", "")
    if packed and all(letter in letters for letter in packed):
        return "".join(letters[letter] for letter in packed)
    return f"{mark}{text}" if len(packed) == 1 else f"{mark}({text})"


def _factor(text: str) -> str:
    return text if _FACTOR.fullmatch(text) or _is_enclosed(text) else f"({text})"


def _is_enclosed(text: str) -> bool:
    """Whether one pair of parentheses, or a root, holds the text."""
    inner = text.lstrip("√∛∜").rstrip(_SCRIPTS)
    if not inner.startswith("(") or not inner.endswith(")"):
        return False
    depth = 0
    for index, character in enumerate(inner):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return index == len(inner) - 1
    return False
