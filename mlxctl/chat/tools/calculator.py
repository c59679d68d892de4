"""Arithmetic for the demo tool, evaluated from a syntax tree.

Only numbers and a few operators are allowed; the expression is never executed as Python.
"""

import ast
import math
import operator
from collections.abc import Callable

Number = int | float

_MAX_CHARACTERS = 500
# Larger results take long to compute and are unreadable.
_MAX_BITS = 4096
_MAX_EXPONENT = 1000

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def calculate(expression: str) -> str:
    """Return the value of an expression.

    Allowed: numbers, + - * / // % ** (also ^ × ÷) and parentheses. Raises ValueError with a message for the
    model.
    """
    if len(expression) > _MAX_CHARACTERS:
        raise ValueError(f"the expression is longer than {_MAX_CHARACTERS} characters")
    try:
        tree = ast.parse(
            expression.strip().replace("^", "**").replace("×", "*").replace("÷", "/"), mode="eval"
        )
        value = _value(tree.body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("this is not an arithmetic expression") from None
    except ZeroDivisionError:
        raise ValueError("division by zero") from None
    except OverflowError:
        raise ValueError("the result is too large") from None
    return _shown(value)


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _UNARY:
            return _UNARY[type(sign)](_value(operand))
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
            return _power(_value(base), _value(exponent))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _bounded(_BINARY[type(sign)](_value(left), _value(right)))
        case _:
            raise ValueError("only numbers, + - * / // % ** and parentheses are understood")


def _power(base: Number, exponent: Number) -> Number:
    if abs(exponent) > _MAX_EXPONENT:
        raise ValueError(f"an exponent may be at most {_MAX_EXPONENT}")
    if isinstance(base, int) and base.bit_length() * abs(exponent) > _MAX_BITS:
        raise ValueError("the result is too large")
    result = base**exponent
    if not isinstance(result, int | float):
        raise ValueError("the result is not a real number")  # noqa: TRY004 -- an invalid value of the model
    return _bounded(result)


def _bounded(number: Number) -> Number:
    if isinstance(number, int) and number.bit_length() > _MAX_BITS:
        raise ValueError("the result is too large")
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError("the result is too large")
    return number


def _shown(number: Number) -> str:
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.12g}" if isinstance(number, float) else str(number)
