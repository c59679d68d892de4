"""What a wire protocol is made of. Pure values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlxctl.ir import GenerationRequest
from mlxctl.ir.errors import RequestError
from mlxctl.protocols.encoder import Encoder, Parsed, StoredContext
from mlxctl.protocols.error_body import ErrorBody

NDJSON = "application/x-ndjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireProtocol:
    """A wire protocol: its vendor and the shape of its errors.

    `render_error(error, request_id=...)` returns the response, whose body is an `error`; not every vendor's
    shape has the id.
    """

    vendor: str
    error: type[Any]
    render_error: Callable[..., ErrorBody]


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """Stored conversations that requests continue by the id of an answer.

    `kind` keeps those of protocols apart; `unknown` makes the error for an id that is not stored.
    """

    kind: str
    unknown: Callable[[str], RequestError]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationProtocol(WireProtocol):
    """A wire protocol that generates text.

    `parse` reads a body; `parse_with` also takes what is stored of its reference, where bodies may refer to
    something. Both raise InvalidRequest with the caller's field as `param`, and are functions of a module, so
    that a preparation process can call them. `create_encoder` makes the encoder of a shape. With `threads`,
    references are to answers of stored conversations. With `describes_model` answers describe their model.
    `encode_loaded` writes the answer to a request that only loads or unloads a model, from its shape, the
    model's name and whether it is unloaded.
    """

    parse: Callable[[bytes], Parsed]
    parse_with: Callable[[bytes, Any], Parsed] | None = None
    create_encoder: Callable[[Any], Encoder]
    stream_media_type: str = "text/event-stream"
    threads: Threads | None = None
    describes_model: bool = False
    encode_loaded: Callable[[Any, str, bool], bytes] | None = None

    def parse_alone(self, body: bytes) -> GenerationRequest:
        """Parse a body without stored data. Raises InvalidRequest."""
        parsed, _ = self.parse(body) if self.parse_with is None else self.parse_with(body, StoredContext())
        assert isinstance(parsed, GenerationRequest), "nothing is left to refer to"
        return parsed
