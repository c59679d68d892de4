"""Requests in the front: options are readable, long content is pickled."""

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlxctl.ir import (
    EmbeddingRequest,
    GenerationRequest,
    ImagePart,
    Message,
    RemoteImagePart,
    SeenPart,
    ToolSpec,
)
from mlxctl.ir.errors import InvalidRequest

MAX_MODEL_CHARS = 1024
MAX_VALUES = 100_000
"""Most objects, lists, names and values in a request's tool schemas and template arguments."""

MAX_HEAD_BYTES = 4 << 20
"""Largest head, because the front unpickles it on its event loop."""

_CONTENT_FIELDS = ("messages", "prompts", "suffix", "tools", "constraint", "template_kwargs")
_NONE_FETCHED: Mapping[RemoteImagePart, SeenPart] = {}


class PackedRequest:
    """A generation request, in packed form unless it is short.

    `head` has the options. In packed form it has no messages and no descriptions of tools, and one empty
    prompt if the request has prompts; `packed` is the whole request for `unpack`, which is slow for a long
    one. Of a short request the `head` is the whole, and `packed` is None.

    `has_answers` says that the conversation has earlier answers. `remote_images` are still to be fetched;
    `fetched` has those that were. `has_documents` says that documents are still to be read.
    """

    __slots__ = ("_num_bytes", "fetched", "has_answers", "has_documents", "head", "packed", "remote_images")

    def __init__(
        self,
        head: GenerationRequest,
        packed: Any,
        *,
        num_bytes: int,
        has_answers: bool = True,
        remote_images: tuple[RemoteImagePart, ...] = (),
        fetched: Mapping[RemoteImagePart, SeenPart] = _NONE_FETCHED,
        has_documents: bool = False,
    ) -> None:
        self.head = head
        self.packed = packed
        self.has_answers = has_answers
        self.remote_images = remote_images
        self.fetched = fetched
        self.has_documents = has_documents
        self._num_bytes = num_bytes

    @classmethod
    def of(cls, request: GenerationRequest) -> "PackedRequest":
        """Pack a request. Raises InvalidRequest for one with too many values."""
        _check_size(request)
        head = replace(
            request,
            messages=(),
            prompts=request.prompts and ("",),
            suffix=None,
            tools=tuple(ToolSpec(name=tool.name, parameters=tool.parameters) for tool in request.tools),
            constraint=None,
            template_kwargs={},
        )
        packed = pickle.dumps(request, protocol=5)
        _check_head_size(head, packed)
        return cls(head, packed, num_bytes=len(packed), **_facts_of(request.messages))

    @classmethod
    def short(cls, request: GenerationRequest, *, num_bytes: int) -> "PackedRequest":
        """Hold the request of a short body as it is. Raises InvalidRequest."""
        _check_model_name(request.model)
        return cls(request, None, num_bytes=num_bytes, **_facts_of(request.messages))

    @property
    def num_bytes(self) -> int:
        """Size of the content and the fetched images."""
        return self._num_bytes + sum(
            len(part.data) if isinstance(part, ImagePart) else sum(map(len, part.files))
            for part in self.fetched.values()
        )

    def with_head(self, **changes: Any) -> "PackedRequest":
        """Return the request with changed options."""
        # PERF: most requests keep their options; a copy of all fields takes 8 us, four times a request.
        if all(getattr(self.head, name) == value for name, value in changes.items()):
            return self
        return PackedRequest(replace(self.head, **changes), self.packed, **self._facts)

    def with_fetched(self, images: Mapping[RemoteImagePart, SeenPart]) -> "PackedRequest":
        """Return the request with its remote images and clips."""
        return PackedRequest(
            self.head, self.packed, **(self._facts | {"remote_images": (), "fetched": images})
        )

    def unpack(self) -> GenerationRequest:
        """Return the request with the options of `head`."""
        whole = self.head
        if self.packed is not None:
            packed = pickle.loads(self.packed)  # noqa: S301 -- packed by `of`, in a process of this server
            whole = replace(self.head, **{name: getattr(packed, name) for name in _CONTENT_FIELDS})
        if self.fetched:
            messages = tuple(message.with_fetched(self.fetched) for message in whole.messages)
            whole = replace(whole, messages=messages)
        return whole

    @property
    def _facts(self) -> dict[str, Any]:
        names = ("has_answers", "remote_images", "fetched", "has_documents")
        return {"num_bytes": self._num_bytes} | {name: getattr(self, name) for name in names}

    def __reduce__(self) -> tuple[Any, ...]:
        packed = None if self.packed is None else pickle.PickleBuffer(self.packed)
        return _restore, (self.head, packed, self._facts)


def _restore(head: GenerationRequest, packed: Any, facts: Mapping[str, Any]) -> PackedRequest:
    return PackedRequest(head, packed, **facts)


def _facts_of(messages: Sequence[Message]) -> dict[str, Any]:
    """Return what decides where a request goes."""
    return {
        "has_answers": any(message.role == "assistant" for message in messages),
        "remote_images": tuple(part for message in messages for part in message.remote_images),
        "has_documents": any(message.has_documents for message in messages),
    }


class PackedTexts:
    """An embedding request; the texts of `head` are empty."""

    __slots__ = ("head", "packed")

    def __init__(self, head: EmbeddingRequest, packed: Any) -> None:
        self.head = head
        self.packed = packed

    @classmethod
    def of(cls, request: EmbeddingRequest) -> "PackedTexts":
        """Pack a request. Raises InvalidRequest."""
        _check_model_name(request.model)
        query = None if request.query is None else ""
        return cls(replace(request, inputs=("",), query=query), pickle.dumps(request, protocol=5))

    @property
    def num_bytes(self) -> int:
        """Size of the pickle."""
        return len(self.packed)

    def with_model(self, name: str) -> "PackedTexts":
        """Return the request for another model."""
        return PackedTexts(replace(self.head, model=name), self.packed)

    def unpack(self) -> EmbeddingRequest:
        """Return the request with its texts."""
        whole: EmbeddingRequest = pickle.loads(self.packed)  # noqa: S301 -- packed by `of`, in a process of this server
        return replace(whole, model=self.head.model)

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedTexts, (self.head, pickle.PickleBuffer(self.packed))


def _check_size(request: GenerationRequest) -> None:
    _check_model_name(request.model)
    schemas = (tool.parameters for tool in request.tools)
    for param, values in (("tools", schemas), ("chat_template_kwargs", (request.template_kwargs,))):
        if _num_values(values) > MAX_VALUES:
            raise InvalidRequest(
                f"{param} hold more than {MAX_VALUES} values, lists and names within them; send less",
                param=param,
            )


def _check_head_size(head: GenerationRequest, packed: bytes) -> None:
    # PERF: a head is never larger than the whole request, which is usually small.
    if len(packed) > MAX_HEAD_BYTES and len(pickle.dumps(head, protocol=5)) > MAX_HEAD_BYTES:
        message = f"tool schemas and names may have {MAX_HEAD_BYTES} bytes together; send less"
        raise InvalidRequest(message, param="tools")


def _check_model_name(model: str) -> None:
    if len(model) > MAX_MODEL_CHARS:
        raise InvalidRequest(
            f"model has {len(model)} characters; the maximum is {MAX_MODEL_CHARS}", param="model"
        )


def _num_values(values: Iterable[Any]) -> int:
    """Count nested values, up to a few more than MAX_VALUES."""
    open_values = list(values)
    number = 0
    while open_values and number <= MAX_VALUES:
        value = open_values.pop()
        number += 1
        if isinstance(value, dict):
            open_values += value.values()
            number += len(value)
        elif isinstance(value, list | tuple):
            open_values += value
    return number + len(open_values)
