"""The routes of another server's API as a table. Pure values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlxctl.protocols.encoder import ParsedTexts
from mlxctl.protocols.error_body import ErrorBody
from mlxctl.protocols.wire_protocol import GenerationProtocol, WireProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRoute:
    """A POST route that generates text.

    `name` is the protocol's in `PROTOCOLS`. `aliases` are other paths. `body`, `answer`, `other_answers` and
    `events` are types for `/openapi.json`.
    """

    name: str
    path: str
    summary: str
    protocol: GenerationProtocol
    body: type[Any]
    answer: type[Any]
    other_answers: tuple[type[Any], ...] = ()
    events: tuple[type[Any], ...]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextsRoute:
    """A POST route that computes vectors of texts, or scores of them.

    `parse` is a function of a module, or a partial one. Bodies without a model are for the first embedder,
    those of a route that `reranks` for the first reranker.
    """

    path: str
    summary: str
    protocol: WireProtocol
    parse: Callable[[bytes], ParsedTexts]
    body: type[Any]
    answer: type[Any]
    other_answers: tuple[type[Any], ...] = ()
    aliases: tuple[str, ...] = ()
    reranks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The routes of one server's API that generate text or compute vectors.

    `error_prefixes` give the shape of errors for unknown paths that begin like this.
    """

    generation: tuple[GenerationRoute, ...] = ()
    texts: tuple[TextsRoute, ...] = ()
    error_prefixes: Mapping[str, Callable[..., ErrorBody]] = field(default_factory=dict)
