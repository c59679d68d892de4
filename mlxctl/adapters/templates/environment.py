"""The Jinja environment that Hugging Face chat templates expect, sandboxed: a template is data from a model
directory.

What it offers beyond Jinja is what the format's documentation promises: trimmed blocks, loop controls,
`raise_exception`, `strftime_now`, a `tojson` that keeps key order and unicode, and `{% generation %}` tags,
which only training looks at.
"""

import json
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser

from mlxctl.adapters.templates.limits import LimitedEnvironment


class TemplateRefusal(jinja2.TemplateError):
    """The template itself refused the conversation, by `raise_exception`."""


class _GenerationTag(Extension):
    """Renders `{% generation %}…{% endgeneration %}` as what is between."""

    tags = {"generation"}  # noqa: RUF012 (Jinja declares it so)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


@lru_cache(maxsize=1)
def chat_template_environment() -> LimitedEnvironment:
    """Return the environment, which all templates share."""
    environment = LimitedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols], cache_size=0
    )
    environment.filters["tojson"] = _to_json
    environment.limit_filters()
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter would escape HTML and sort keys."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise TemplateRefusal(str(message))


def _strftime_now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)
