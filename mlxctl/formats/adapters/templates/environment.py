"""The sandboxed Jinja environment of chat templates, with bounded work.

A template is data from a model directory. Beyond Jinja it gets what Hugging Face's template format documents:
trimmed blocks, loop controls, `raise_exception`, `strftime_now`, a `tojson` that keeps key order and unicode,
and `{% generation %}` tags, which only training uses.

Jinja's sandbox bounds what a template can reach and how long one `range` is, but not nested loops or the size
of texts. Here each loop element, each call (which costs several steps) and each long text counts as steps of
one budget, and no text may exceed MAX_CHARS, whether operators, filters, formats, blocks or macros build it.
"""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from itertools import islice
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, str_join
from jinja2.sandbox import ImmutableSandboxedEnvironment

from mlxctl.formats.adapters.templates.probe_time import check_probe_time
from mlxctl.formats.adapters.templates.sizes import (
    TemplateTooLong,
    check_filter,
    check_method,
    check_percent,
    check_size,
)

MAX_CHARS = 16 << 20
MAX_STEPS = 1_000_000
_STEPS_PER_CALL = 20
_CHARS_PER_STEP = 4096
_ELEMENTS_PER_STEP = 4
_MAX_NUMBER_BITS = 4096
# Filters that run Python code for each character of a text.
_ELEMENT_FILTERS = frozenset(
    {
        "batch", "groupby", "join", "list", "map", "max", "min", "pprint", "reject", "rejectattr", "select",
        "selectattr", "slice", "sort", "sum", "title", "unique", "urlize", "wordwrap",
    }
)  # fmt: skip
_OWN_FILTERS = {"counted", "measured", "concatenated"}

_steps_left: ContextVar[int] = ContextVar("steps_left", default=MAX_STEPS)


class TemplateRejection(jinja2.TemplateError):
    """The template rejected the conversation by `raise_exception`."""


@contextmanager
def counted_steps() -> Iterator[None]:
    """Give the rendering inside a fresh budget of MAX_STEPS."""
    token = _steps_left.set(MAX_STEPS)
    try:
        yield
    finally:
        _steps_left.reset(token)


@functools.lru_cache(maxsize=1)
def chat_template_environment() -> "LimitedEnvironment":
    """Return the environment that all templates share."""
    environment = LimitedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols], cache_size=0
    )
    environment.filters["tojson"] = _to_json
    environment.limit_filters()
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class _GenerationTag(Extension):
    """Renders the body of `{% generation %}…{% endgeneration %}`."""

    tags = {"generation"}  # noqa: RUF012 (Jinja declares it so)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _LimitingGenerator(CodeGenerator):
    """Compiles a template with its loops counted and its texts measured."""

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:  # noqa: N802 (Jinja names it so)
        for loop in node.find_all(nodes.For):
            loop.iter = _filter_node(loop.iter, "counted")
        for block in node.find_all(nodes.AssignBlock):
            block.filter = _filter_node(block.filter, "measured")
        for text in list(node.find_all(nodes.Concat)):
            text.nodes = [_filter_node(nodes.List(text.nodes, lineno=text.lineno), "concatenated")]
        super().visit_Template(node, frame)


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with limits on steps and text sizes.

    Render inside `counted_steps`.
    """

    code_generator_class = _LimitingGenerator
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, finalize=_checked_output)
        # `lipsum` generates any number of paragraphs.
        del self.globals["lipsum"]
        self.filters["counted"] = _counted
        self.filters["measured"] = _measured
        self.filters["concatenated"] = _concatenated

    def limit_filters(self) -> None:
        """Check the arguments of every filter that is registered now.

        Call it once, after all filters are registered.
        """
        self.filters.update(
            {
                name: _checked_filter(name, function)
                for name, function in self.filters.items()
                if name not in _OWN_FILTERS
            }
        )

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a template's callable; a recursive loop pays for its elements."""
        _take_steps(_STEPS_PER_CALL)
        if isinstance(obj, LoopContext) and args:
            args = (_counted(args[0]), *args[1:])
        # The sandbox wraps the formatting methods in functions of its own.
        method = getattr(obj, "__wrapped__", obj)
        if isinstance(text := getattr(method, "__self__", None), str):
            check_method(text, method.__name__, (*args, *kwargs.values()), max_chars=MAX_CHARS)
        return _measured(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Evaluate an operator, after checking the size of its result."""
        numbers = [value for value in (left, right) if isinstance(value, int)]
        for value in (left, right):
            if (
                operator == "*"
                and isinstance(value, Sized)
                and numbers
                and len(value) * numbers[0] > MAX_CHARS
            ):
                raise TemplateTooLong(f"it builds a text of more than {MAX_CHARS} characters")
        if operator == "%":
            check_percent(left, max_chars=MAX_CHARS, values=right)
        if len(numbers) == 2 and _num_bits(operator, left, right) > _MAX_NUMBER_BITS:
            raise TemplateTooLong(f"it computes a number of more than {_MAX_NUMBER_BITS} bits")
        return _measured(super().call_binop(context, operator, left, right))


def _filter_node(node: nodes.Node | None, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=1 if node is None else node.lineno)


def _counted(elements: Any) -> Any:
    """Take one step for each element of a loop.

    An iterable without a length is read only as far as the budget allows.
    """
    if isinstance(elements, Iterable) and not isinstance(elements, Sized):
        elements = list(islice(elements, _steps_left.get() + 1))
    _take_steps(1 + (len(elements) if isinstance(elements, Sized) else 0))
    return elements


def _take_steps(number: int) -> None:
    check_probe_time()
    steps_left = _steps_left.get() - number
    if steps_left < 0:
        raise TemplateTooLong(f"it did not finish within {MAX_STEPS} steps")
    _steps_left.set(steps_left)


def _measured(value: Any) -> Any:
    if isinstance(value, str | list | tuple):
        if len(value) > MAX_CHARS:
            raise TemplateTooLong(f"it builds a text of more than {MAX_CHARS} characters")
        _take_steps(len(value) // _CHARS_PER_STEP)
    return value


def _checked_output(value: Any) -> Any:
    """Check the size of a value before it is output."""
    if not isinstance(value, str):
        check_size(value, max_chars=MAX_CHARS)
    return value


def _concatenated(parts: Sequence[Any]) -> Any:
    check_size(parts, max_chars=MAX_CHARS)
    return _measured(str_join(parts))


def _checked_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a filter so that its arguments are checked before it runs.

    The marker that Jinja puts on functions whose first argument it passes is kept.
    """
    num_passed = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        value = args[num_passed]
        is_by_element = isinstance(value, Sized) and (name in _ELEMENT_FILTERS or not isinstance(value, str))
        _take_steps(1 + (len(value) // _ELEMENTS_PER_STEP if is_by_element else 0))
        check_filter(name, value, (*args[num_passed + 1 :], *kwargs.values()), max_chars=MAX_CHARS)
        return _measured(function(*args, **kwargs))

    return checked


def _num_bits(operator: str, left: int, right: int) -> int:
    """Return an upper bound for the result's length in bits."""
    if operator == "**":
        return left.bit_length() * right
    return left.bit_length() + right.bit_length() if operator == "*" else 0


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Encode as JSON; Jinja's own filter escapes HTML and sorts keys.

    The elements of a filter such as `map` are a list.
    """
    value = list(value) if isinstance(value, Iterator) else value
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise TemplateRejection(str(message))


def _strftime_now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)
