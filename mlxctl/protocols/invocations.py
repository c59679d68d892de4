"""Bodies of SageMaker's `/invocations`: each is the body of another route."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.ranges import Name

EMBEDDINGS_PATH = "/v1/embeddings"
INVOCATION_PATHS: Mapping[str, str] = {
    "messages": "/v1/chat/completions",
    "prompt": "/v1/completions",
    "input": EMBEDDINGS_PATH,
    "query": "/v1/rerank",
    "text_1": "/v1/score",
    "queries": "/v1/score",
    "data_1": "/v1/score",
}
"""The path whose body has this field; the first one that a body has counts."""


class Invocation(Struct, kw_only=True):
    """The body of a chat completion, completion, embedding, reranking or score.

    Without a `model` it gets the first one that fits. Other fields are those of the body's own route.
    """

    model: Name | None = None
    messages: list[Any] | UnsetType = UNSET
    prompt: str | list[Any] | UnsetType = UNSET
    input: str | list[Any] | UnsetType = UNSET
    query: str | UnsetType = UNSET
    text_1: str | list[Any] | UnsetType = UNSET
    queries: str | list[Any] | UnsetType = UNSET
    data_1: str | list[Any] | UnsetType = UNSET


_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL = b"null"
_encode = msgspec.json.Encoder().encode


def read_invocation(body: bytes, default_models: Mapping[str, str]) -> tuple[str, bytes | None]:
    """Return the path that a body belongs to, and its replacement.

    The replacement is None for a body that names a model; others get that of `default_models`, which are by
    path.
    Raises InvalidRequest.
    """
    fields = decode_body(body, _FIELDS)
    path = next((path for name, path in INVOCATION_PATHS.items() if name in fields), None)
    if path is None:
        names = ", ".join(INVOCATION_PATHS)
        raise InvalidRequest(f"the body has none of the fields {names}, which decide what it asks for")
    if bytes(fields.get("model", _NULL)) != _NULL:
        return path, None
    return path, _encode({**fields, "model": default_models[path]})
