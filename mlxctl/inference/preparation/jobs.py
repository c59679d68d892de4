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
from mlxctl.adapters.templates.agent_headers import without_agent_headers
from mlxctl.adapters.tokens.encoded_segments import EncodedSegment, OpenSegment
from mlxctl.adapters.tone_curves import with_tone_curve
from mlxctl.errors import ContextTooLong, InvalidRequest
from mlxctl.inference.preparation.image_digests import without_image_bytes
from mlxctl.inference.preparation.packed_request import PackedRequest, PackedTexts
from mlxctl.inference.truncation import shortened
from mlxctl.ir import EmbeddingRequest, GenerationRequest, ToneCurveOptions
from mlxctl.ir.tokens import Salt, prompt_salts

MAX_TOKENS = 300_000
"""The most tokens that the texts of one request for embeddings may have together; OpenAI's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """What holds for all requests: whether lines that agents change are left out, and the tone curve of those
    that name none.
    """

    strips_headers: bool
    tone_curve: ToneCurveOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """The inputs of a request, one for each prompt; the ids are packed, and what an answer continues is in
    `opened`, pickled.

    `seen` is the request as the model saw it, for explanations: without what was left out, and without the
    bytes of images. None if it is the request that was sent.
    """

    inputs: tuple[PreparedInput, ...]
    opened: tuple[bytes, ...]
    seen: PackedRequest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPrompt:
    """The ids of a prompt, and what its images make of them. `seen` as in Preparation."""

    token_ids: "array[int]"
    salts: tuple[Salt, ...]
    seen: PackedRequest | None


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the function makes of `arguments`; a request is packed, and views of bytes are bytes again."""
    return _packed(function(*map(_plain, arguments)))


def call_method(target: object, name: str, *arguments: Any) -> tuple[dict[str, Any], Any]:
    """Call a method and return how its object is afterwards, and what it returned."""
    result = call(getattr(target, name), *arguments)
    return vars(target), result


def prepare(adapter: ModelAdapter, packed: PackedRequest, manners: Manners) -> Preparation:
    """Prepare a request. Raises InvalidRequest, ContextTooLong."""
    asked = packed.unpack()
    request = _mannered(asked, manners)
    if request.prompts:
        prepared = [adapter.prepare_text(request, prompt) for prompt in request.prompts]
    else:
        prepared = [_prepare_conversation(adapter, request)]
    return Preparation(
        inputs=tuple(replace(each, token_ids=array("I", each.token_ids), opened=None) for each in prepared),
        opened=tuple(b"" if each.opened is None else pickle.dumps(each.opened) for each in prepared),
        seen=_seen(asked, request),
    )


def count_tokens(adapter: ModelAdapter, packed: PackedRequest, manners: Manners) -> int:
    """Count the tokens of a conversation's prompt, which may be longer than the model takes.

    Raises InvalidRequest.
    """
    return adapter.count_prompt_tokens(_mannered(packed.unpack(), manners))


def prompt_tokens(adapter: ModelAdapter, packed: PackedRequest, manners: Manners) -> PackedPrompt:
    """Return a conversation's prompt, which may be longer than the model takes. Raises InvalidRequest."""
    return _prompt_tokens(packed, manners, adapter.prompt_tokens)


def fitting_prompt_tokens(adapter: ModelAdapter, packed: PackedRequest, manners: Manners) -> PackedPrompt:
    """Return a conversation's prompt. Raises InvalidRequest, ContextTooLong."""
    return _prompt_tokens(packed, manners, adapter.fitting_prompt_tokens)


def _prompt_tokens(
    packed: PackedRequest, manners: Manners, read: Callable[[GenerationRequest], PromptTokens]
) -> PackedPrompt:
    asked = packed.unpack()
    request = _mannered(asked, manners)
    prompt = read(request)
    return PackedPrompt(
        token_ids=array("I", prompt.token_ids),
        salts=prompt_salts(request.cache.namespace, prompt.images),
        seen=_seen(asked, request),
    )


def prepare_texts(adapter: ModelAdapter, packed: PackedTexts) -> "list[array[int]]":
    """Return the token ids of all texts to be embedded. Raises InvalidRequest, ContextTooLong."""
    request = packed.unpack()
    found: list[array[int]] = []
    num_tokens = 0
    for place, text in enumerate(request.inputs):
        ids = adapter.prepare_embedding(
            text, f"input[{place}]", prompt_name=request.prompt_name, may_cut=request.may_cut
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


def _plain(argument: Any) -> Any:
    return bytes(argument) if isinstance(argument, memoryview | bytearray | pickle.PickleBuffer) else argument


def _packed(result: Any) -> Any:
    if isinstance(result, GenerationRequest):
        return PackedRequest.of(result)
    return PackedTexts.of(result) if isinstance(result, EmbeddingRequest) else result


def _mannered(request: GenerationRequest, manners: Manners) -> GenerationRequest:
    messages = without_agent_headers(request.messages) if manners.strips_headers else request.messages
    return replace(request, messages=messages, sampling=with_tone_curve(request.sampling, manners.tone_curve))


def _seen(asked: GenerationRequest, request: GenerationRequest) -> PackedRequest | None:
    seen = without_image_bytes(request)
    return None if seen.messages == asked.messages else PackedRequest.of(seen)


def _prepare_conversation(adapter: ModelAdapter, request: GenerationRequest) -> PreparedInput:
    try:
        return adapter.prepare_input(request)
    except ContextTooLong:
        if not request.drop_oldest:
            raise
        shorter = shortened(request, adapter.count_prompt_tokens, context_length=adapter.facts.context_length)
        if shorter is None:
            raise
    return adapter.prepare_input(shorter)
