"""What preparation processes do: functions of one request, and of its model's adapter.

Nothing here runs in the front.
"""

import pickle
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlxctl.adapters import ModelAdapter, PreparedInput
from mlxctl.adapters.prepared import PromptTokens
from mlxctl.adapters.tokens.encoded_segments import EncodedSegment, OpenSegment
from mlxctl.errors import ContextTooLong, InvalidRequest
from mlxctl.inference.preparation.image_digests import without_image_bytes
from mlxctl.inference.preparation.packed_request import PackedRequest, PackedTexts
from mlxctl.inference.truncation import truncate_oldest
from mlxctl.ir import EmbeddingRequest, GenerationRequest
from mlxctl.ir.tokens import Salt, prompt_salts

MAX_TOKENS = 300_000
"""The most tokens that the texts of one request for embeddings may have together; OpenAI's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """The inputs of a request, one for each prompt; the ids are packed, and what an answer continues is in
    `opened`, pickled.

    `seen` is the request as the model saw it, for explanations: without what was left out, and without the
    bytes of images. None if it is the request that was sent.
    """

    inputs: tuple[PreparedInput, ...]
    opened: tuple[bytes, ...]
    normalized: PackedRequest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPrompt:
    """The ids of a prompt, and what its images make of them. `seen` as in Preparation."""

    token_ids: "array[int]"
    salts: tuple[Salt, ...]
    normalized: PackedRequest | None


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the function makes of `arguments`; a request is packed, and views of bytes are bytes again."""
    return _pack_request(function(*map(_unwrap_buffer, arguments)))


def call_method(target: object, name: str, *arguments: Any) -> tuple[dict[str, Any], Any]:
    """Call a method and return how its object is afterwards, and what it returned."""
    result = call(getattr(target, name), *arguments)
    return vars(target), result


def prepare(adapter: ModelAdapter, packed: PackedRequest) -> Preparation:
    """Prepare a request. Raises InvalidRequest, ContextTooLong."""
    original = packed.unpack()
    request = adapter.normalized(original)
    if request.prompts:
        prepared = [adapter.prepare_text(request, prompt) for prompt in request.prompts]
    else:
        prepared = [_prepare_conversation(adapter, request)]
    return Preparation(
        inputs=tuple(replace(each, token_ids=array("I", each.token_ids), opened=None) for each in prepared),
        opened=tuple(b"" if each.opened is None else pickle.dumps(each.opened) for each in prepared),
        normalized=_if_changed(original, request),
    )


def count_tokens(adapter: ModelAdapter, packed: PackedRequest) -> int:
    """Count the tokens of a conversation's prompt, which may be longer than the model takes.

    Raises InvalidRequest.
    """
    return adapter.count_prompt_tokens(packed.unpack())


def prompt_tokens(adapter: ModelAdapter, packed: PackedRequest) -> PackedPrompt:
    """Return a conversation's prompt, which may be longer than the model takes. Raises InvalidRequest."""
    return _prompt_tokens(adapter, packed, adapter.prompt_tokens)


def fitting_prompt_tokens(adapter: ModelAdapter, packed: PackedRequest) -> PackedPrompt:
    """Return a conversation's prompt. Raises InvalidRequest, ContextTooLong."""
    return _prompt_tokens(adapter, packed, adapter.fitting_prompt_tokens)


def _prompt_tokens(
    adapter: ModelAdapter, packed: PackedRequest, encode: Callable[[GenerationRequest], PromptTokens]
) -> PackedPrompt:
    original = packed.unpack()
    request = adapter.normalized(original)
    prompt = encode(request)
    return PackedPrompt(
        token_ids=array("I", prompt.token_ids),
        salts=prompt_salts(request.cache.namespace, prompt.images),
        normalized=_if_changed(original, request),
    )


def prepare_texts(adapter: ModelAdapter, packed: PackedTexts) -> "list[array[int]]":
    """Return the token ids of all texts to be embedded. Raises InvalidRequest, ContextTooLong."""
    request = packed.unpack()
    found: list[array[int]] = []
    num_tokens = 0
    for position, text in enumerate(request.inputs):
        ids = adapter.prepare_embedding(
            text, f"input[{position}]", prompt_name=request.prompt_name, may_cut=request.may_cut
        )
        found.append(array("I", ids))
        num_tokens += len(ids)
    if num_tokens > MAX_TOKENS:
        message = f"input has {num_tokens} tokens; a request may have {MAX_TOKENS}; send fewer texts at once"
        raise InvalidRequest(message, param="input")
    return found


def encode_text(adapter: ModelAdapter, text: str) -> list[int]:
    """Return the ids of a text by itself."""
    return adapter.vocabulary.encode(text)


def answer_segments(
    adapter: ModelAdapter, opened: bytes, generated_ids: Sequence[int]
) -> list[EncodedSegment]:
    """Return what is worth knowing of an answer that came to its end."""
    segment: OpenSegment = pickle.loads(opened)  # noqa: S301 -- pickled by `prepare`
    return adapter.answer_segments(segment, generated_ids)


def _unwrap_buffer(argument: Any) -> Any:
    return bytes(argument) if isinstance(argument, memoryview | bytearray | pickle.PickleBuffer) else argument


def _pack_request(result: Any) -> Any:
    if isinstance(result, GenerationRequest):
        return PackedRequest.of(result)
    return PackedTexts.of(result) if isinstance(result, EmbeddingRequest) else result


def _if_changed(original: GenerationRequest, request: GenerationRequest) -> PackedRequest | None:
    normalized = without_image_bytes(request)
    return None if normalized.messages == original.messages else PackedRequest.of(normalized)


def _prepare_conversation(adapter: ModelAdapter, request: GenerationRequest) -> PreparedInput:
    try:
        return adapter.prepare_input(request)
    except ContextTooLong:
        if not request.drop_oldest:
            raise
        shorter = truncate_oldest(
            request, adapter.count_prompt_tokens, context_length=adapter.facts.context_length
        )
        if shorter is None:
            raise
    return adapter.prepare_input(shorter)
