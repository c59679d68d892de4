"""Keeps a chat template from running for ever or growing without bound: a template is data from a model
directory.

Jinja's sandbox bounds what a template can reach, and how long one `range` is, but not how often loops lie
within loops. Here each element that a loop goes through counts as a step, a call, which takes longer, as
several, and so does making long texts; text may not grow beyond what a prompt may have, whether operators,
filters, formats, blocks or macros put it together.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import Context, LoopContext, str_join
from jinja2.sandbox import ImmutableSandboxedEnvironment

from mlxctl.adapters.templates.sizes import TemplateTooLong, check_filter, check_method, check_percent, weigh

MAX_CHARS = 16 << 20
MAX_STEPS = 1_000_000
_STEPS_OF_A_CALL = 20
_CHARS_OF_A_STEP = 4096
_MAX_NUMBER_BITS = 4096

_steps_left: ContextVar[int] = ContextVar("steps_left", default=MAX_STEPS)


@contextmanager
def counted_steps() -> Iterator[None]:
    """Give what is rendered inside its steps."""
    token = _steps_left.set(MAX_STEPS)
    try:
        yield
    finally:
        _steps_left.reset(token)


class _LimitingGenerator(CodeGenerator):
    """Compiles a template with its loops counted and its texts measured."""

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:  # noqa: N802 (Jinja names it so)
        for loop in node.find_all(nodes.For):
            loop.iter = _filtered(loop.iter, "counted")
        for block in node.find_all(nodes.AssignBlock):
            block.filter = _filtered(block.filter, "measured")
        for text in list(node.find_all(nodes.Concat)):
            text.nodes = [_filtered(nodes.List(text.nodes, lineno=text.lineno), "concatenated")]
        super().visit_Template(node, frame)


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, with limits on steps and text; what is rendered needs `counted_steps` around it."""

    code_generator_class = _LimitingGenerator
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, finalize=_weighed)
        # It makes as many paragraphs as it is asked for.
        del self.globals["lipsum"]
        self.filters["counted"] = _counted
        self.filters["measured"] = _measured
        self.filters["concatenated"] = _concatenated

    def limit_filters(self) -> None:
        """Have every filter that there is now judged before it makes something; to be called once, when all
        are there.
        """
        own = {"counted", "measured", "concatenated"}
        self.filters.update(
            {name: _judged(name, filtered) for name, filtered in self.filters.items() if name not in own}
        )

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what a template calls; a loop that calls itself is charged for its elements, too."""
        _take_steps(_STEPS_OF_A_CALL)
        if isinstance(obj, LoopContext) and args:
            args = (_counted(args[0]), *args[1:])
        # The sandbox has put functions of its own around the methods that format.
        method = getattr(obj, "__wrapped__", obj)
        if isinstance(text := getattr(method, "__self__", None), str):
            check_method(text, method.__name__, (*args, *kwargs.values()), max_chars=MAX_CHARS)
        return _measured(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse, before it is worked out, what would be too long."""
        numbers = [value for value in (left, right) if isinstance(value, int)]
        for value in (left, right):
            if (
                operator == "*"
                and isinstance(value, Sized)
                and numbers
                and len(value) * numbers[0] > MAX_CHARS
            ):
                raise TemplateTooLong(f"it makes a text of more than {MAX_CHARS} characters")
        if operator == "%":
            check_percent(left, max_chars=MAX_CHARS, values=right)
        if len(numbers) == 2 and _num_bits(operator, left, right) > _MAX_NUMBER_BITS:
            raise TemplateTooLong("it makes a number that is too large")
        return _measured(super().call_binop(context, operator, left, right))


def _filtered(node: nodes.Node | None, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=1 if node is None else node.lineno)


def _counted(elements: Any) -> Any:
    """Charge for all that a loop will go through.

    What has no length is read as far as there are steps for it.
    """
    if isinstance(elements, Iterable) and not isinstance(elements, Sized):
        elements = list(islice(elements, _steps_left.get() + 1))
    _take_steps(1 + (len(elements) if isinstance(elements, Sized) else 0))
    return elements


def _take_steps(number: int) -> None:
    steps_left = _steps_left.get() - number
    if steps_left < 0:
        raise TemplateTooLong(f"it has not come to an end after {MAX_STEPS} steps")
    _steps_left.set(steps_left)


def _measured(value: Any) -> Any:
    if isinstance(value, str | list | tuple):
        if len(value) > MAX_CHARS:
            raise TemplateTooLong(f"it makes a text of more than {MAX_CHARS} characters")
        _take_steps(len(value) // _CHARS_OF_A_STEP)
    return value


def _weighed(value: Any) -> Any:
    """Judge what is about to be written out."""
    if not isinstance(value, str):
        weigh(value, max_chars=MAX_CHARS)
    return value


def _concatenated(parts: Sequence[Any]) -> Any:
    weigh(parts, max_chars=MAX_CHARS)
    return _measured(str_join(parts))


def _judged(name: str, filtered: Callable[..., Any]) -> Callable[..., Any]:
    """Return the filter, which looks at what it is given before it does anything.

    Jinja's mark of its first argument stays.
    """
    num_given = 1 if hasattr(filtered, "jinja_pass_arg") else 0

    @functools.wraps(filtered)
    def judged(*args: Any, **kwargs: Any) -> Any:
        _take_steps(1)
        check_filter(name, args[num_given], (*args[num_given + 1 :], *kwargs.values()), max_chars=MAX_CHARS)
        return _measured(filtered(*args, **kwargs))

    return judged


def _num_bits(operator: str, left: int, right: int) -> int:
    """Return how long the number becomes, at most."""
    if operator == "**":
        return left.bit_length() * right
    return left.bit_length() + right.bit_length() if operator == "*" else 0
