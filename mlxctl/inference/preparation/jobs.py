"""Functions on one request that run in preparation processes."""

import pickle
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import msgspec

from mlxctl.formats.adapters import ModelAdapter, PreparedInput
from mlxctl.formats.adapters.media.documents import read_documents
from mlxctl.formats.adapters.prepared import NormalizedRequest, PromptTokens
from mlxctl.formats.adapters.tokens.encoded_segments import EncodedSegment, OpenSegment
from mlxctl.inference.preparation.context_edits import edit_context
from mlxctl.inference.preparation.context_overflow import max_prompt_tokens, shorten
from mlxctl.inference.preparation.packed_request import PackedRequest, PackedTexts
from mlxctl.ir import (
    AppliedEdit,
    EmbeddingRequest,
    GenerationRequest,
    ImagePart,
    Message,
    Part,
    ShownPart,
    ToolResultPart,
    VideoPart,
)
from mlxctl.ir.errors import ContextTooLong, InvalidRequest
from mlxctl.ir.timed_phases import Phase, recording, timed
from mlxctl.ir.tokens import Salt, prompt_salts

MAX_TOKENS = 300_000
"""Most tokens of all texts of an embedding request; OpenAI's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Prepared inputs of a request, one per prompt.

    Token ids are packed. `opened` are the pickled segments that the answers continue. `normalized` is the
    request as the model gets it, with digests in place of images; None if its prompt is the original's.
    `opening` is the digest of the conversation's opening. `phases` are the timed parts of the preparation.
    """

    inputs: tuple[PreparedInput, ...]
    opened: tuple[bytes, ...]
    normalized: PackedRequest | None
    opening: bytes | None = None
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPrompt:
    """Token ids of a prompt, and the salts of its images.

    `normalized` as in Preparation.
    """

    token_ids: "array[int]"
    salts: tuple[Salt, ...]
    normalized: PackedRequest | None


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; requests in the result are packed."""
    return _pack_request(function(*map(_unwrap_buffer, arguments)))


def call_here(function: Callable[..., Any], *arguments: Any, num_bytes: int) -> Any:
    """Call a function in the front.

    Requests in the result stay as they are; they have about the size of the arguments.
    """
    return _short_request(function(*map(_unwrap_buffer, arguments)), num_bytes)


def prepare(adapter: ModelAdapter, packed: PackedRequest) -> Preparation:
    """Prepare a request. Raises InvalidRequest, ContextTooLong."""
    original = packed.unpack()
    request, applied_edits = _normalized(adapter, original)
    with recording() as phases:
        if request.prompts:
            with timed("tokenize"):
                prepared = [_prepare_prompt(adapter, request, prompt) for prompt in request.prompts]
        else:
            prepared = [_prepare_conversation(adapter, request)]
    return Preparation(
        inputs=tuple(
            replace(each, token_ids=array("I", each.token_ids), opened=None, applied_edits=applied_edits)
            for each in prepared
        ),
        opened=tuple(b"" if each.opened is None else pickle.dumps(each.opened) for each in prepared),
        normalized=_if_changed(original, request),
        opening=opening_digest(request),
        phases=tuple(phases),
    )


def screen(check: Callable[[Any], Any], content: Any) -> tuple[Any, str | None]:
    """Return what `check` leaves of a request's content, and its verdict.

    The content is a text or packed, None where it is unchanged. Raises GuardrailMatched, InvalidRequest.
    """
    found = check(content)
    return _pack_request(found.content), found.verdict


def with_documents(adapter: ModelAdapter, packed: PackedRequest) -> PackedRequest:
    """Return a request with the pages of its documents. Raises InvalidRequest."""
    request = packed.unpack()
    takes_images = adapter.verdict.takes_images
    return PackedRequest.of(
        replace(request, messages=read_documents(request.messages, takes_images=takes_images))
    )


def opening_digest(request: GenerationRequest) -> bytes | None:
    """Return a digest of tools, system messages and first user message.

    All turns of a conversation have the same. None without a user message, as for raw prompts.
    """
    roles = [message.role for message in request.messages]
    if "user" not in roles:
        return None
    messages = request.messages[: roles.index("user") + 1]
    tools = [(tool.name, tool.description, tool.parameters) for tool in request.tools]
    opening = msgspec.json.encode((tools, tuple(map(_without_bytes, messages))), order="deterministic")
    return blake2b(opening, digest_size=16).digest()


def count_tokens(adapter: ModelAdapter, packed: PackedRequest) -> int:
    """Count the tokens of a prompt, which may exceed the context length.

    Raises InvalidRequest.
    """
    request, _ = _normalized(adapter, packed.unpack())
    return adapter.count_prompt_tokens(request)


def prompt_tokens(adapter: ModelAdapter, packed: PackedRequest) -> PackedPrompt:
    """Return a prompt, which may exceed the context length. Raises InvalidRequest."""
    return _prompt_tokens(adapter, packed, adapter.prompt_tokens)


def fitting_prompt_tokens(adapter: ModelAdapter, packed: PackedRequest) -> PackedPrompt:
    """Return a prompt. Raises InvalidRequest, ContextTooLong."""
    return _prompt_tokens(adapter, packed, adapter.fitting_prompt_tokens)


def _normalized(
    adapter: ModelAdapter, request: GenerationRequest
) -> tuple[NormalizedRequest, tuple[AppliedEdit, ...]]:
    """Return the request as the model gets it, with applied context edits."""
    return edit_context(adapter.normalized(request), adapter.count_prompt_tokens)


def _prompt_tokens(
    adapter: ModelAdapter, packed: PackedRequest, encode: Callable[[NormalizedRequest], PromptTokens]
) -> PackedPrompt:
    original = packed.unpack()
    request, _ = _normalized(adapter, original)
    prompt = encode(request)
    return PackedPrompt(
        token_ids=array("I", prompt.token_ids),
        salts=prompt_salts(request.cache.prefix_namespace, prompt.images),
        normalized=_if_changed(original, request),
    )


def prepare_texts(adapter: ModelAdapter, packed: PackedTexts) -> "list[array[int]]":
    """Return the token ids of all texts to embed. Raises InvalidRequest, ContextTooLong."""
    request = packed.unpack()
    found: list[array[int]] = []
    num_tokens = 0
    for ids in _texts_of(adapter, request):
        found.append(array("I", ids))
        num_tokens += len(ids)
    if num_tokens > MAX_TOKENS:
        param = "input" if request.query is None else "documents"
        message = (
            f"{param} has {num_tokens} tokens; a request may have {MAX_TOKENS}; send fewer texts at once"
        )
        raise InvalidRequest(message, param=param)
    return found


def _texts_of(adapter: ModelAdapter, request: EmbeddingRequest) -> Iterator[tuple[int, ...]]:
    """Yield the token ids of each text, for a cross-encoder each pair."""
    if adapter.scores_pairs:
        if request.query is None:
            message = f"model {request.model!r} is a reranker and has no embeddings; use /v1/rerank"
            raise InvalidRequest(message, param="model")
        for document in request.inputs:
            assert isinstance(document, str), "documents are texts"
            yield adapter.prepare_pair(
                request.query,
                document,
                may_cut=request.may_cut,
                max_document_tokens=request.max_document_tokens,
            )
        return
    if request.query is not None:
        yield adapter.prepare_embedding(request.query, "query")
        for position, document in enumerate(request.inputs):
            assert isinstance(document, str), "documents are texts"
            yield adapter.prepare_document(
                document,
                f"documents[{position}]",
                may_cut=request.may_cut,
                max_tokens=request.max_document_tokens,
            )
        return
    prompt_name = request.prompt_name or adapter.prompt_for(request.purpose)
    for position, text in enumerate(request.inputs):
        yield adapter.prepare_embedding(
            text,
            f"input[{position}]",
            prompt_name=prompt_name,
            may_cut=request.may_cut,
            max_tokens=request.max_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedText:
    """Packed token ids of a text.

    `pieces` are the bytes of each, None if they are not wanted.
    """

    token_ids: "array[int]"
    pieces: tuple[bytes, ...] | None
    context_length: int


def tokenize(
    adapter: ModelAdapter, packed: PackedRequest, adds_special: bool, wants_pieces: bool
) -> TokenizedText:
    """Return the tokens of a text, or of a conversation's prompt.

    Raises InvalidRequest.
    """
    request, vocabulary = packed.unpack(), adapter.vocabulary
    if not request.prompts:
        token_ids: Sequence[int] = adapter.prompt_tokens(adapter.normalized(request)).token_ids
    else:
        text = str(request.prompts[0])
        if len(text) > MAX_TOKENS:
            _check_num_tokens(vocabulary.token_lower_bound.of(text))
        token_ids = vocabulary.encode_whole_text(text) if adds_special else vocabulary.encode(text)
        _check_num_tokens(len(token_ids))
    return TokenizedText(
        token_ids=array("I", token_ids),
        pieces=tuple(map(vocabulary.bytes_of, token_ids)) if wants_pieces else None,
        context_length=adapter.facts.context_length,
    )


def _check_num_tokens(number: int) -> None:
    if number > MAX_TOKENS:
        raise InvalidRequest(f"the text has more than {MAX_TOKENS} tokens; send less", param="prompt")


def detokenize(adapter: ModelAdapter, token_ids: "array[int]") -> str:
    """Return the text of token ids with special tokens. Raises InvalidRequest."""
    highest = max(token_ids, default=0)
    if highest >= adapter.vocabulary_size:
        raise InvalidRequest(
            f"tokens has {highest}, but the model's ids end at {adapter.vocabulary_size - 1}", param="tokens"
        )
    return adapter.vocabulary.decode(token_ids, keeps_special=True)


def render(adapter: ModelAdapter, packed: PackedRequest) -> str:
    """Return the text of a prompt. Raises InvalidRequest."""
    return adapter.prompt_text(adapter.normalized(packed.unpack()))


def encode_text(adapter: ModelAdapter, text: str) -> list[int]:
    """Return the token ids of a text."""
    return adapter.vocabulary.encode(text)


def answer_segments(
    adapter: ModelAdapter, opened: bytes, generated_ids: Sequence[int]
) -> list[EncodedSegment]:
    """Return the segments of a finished answer that are worth recording."""
    segment: OpenSegment = pickle.loads(opened)  # noqa: S301 -- pickled by `prepare`
    return adapter.answer_segments(segment, generated_ids)


def _unwrap_buffer(argument: Any) -> Any:
    return bytes(argument) if isinstance(argument, memoryview | bytearray | pickle.PickleBuffer) else argument


def _pack_request(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(map(_pack_request, result))
    if isinstance(result, GenerationRequest):
        return PackedRequest.of(result)
    return PackedTexts.of(result) if isinstance(result, EmbeddingRequest) else result


def _short_request(result: Any, num_bytes: int) -> Any:
    if isinstance(result, tuple):
        return tuple(_short_request(each, num_bytes) for each in result)
    if isinstance(result, GenerationRequest):
        return PackedRequest.short(result, num_bytes=num_bytes)
    return PackedTexts.of(result) if isinstance(result, EmbeddingRequest) else result


def _if_changed(original: GenerationRequest, request: GenerationRequest) -> PackedRequest | None:
    normalized = _without_image_bytes(request)
    is_same = (normalized.messages, normalized.tool_choice) == (original.messages, original.tool_choice)
    return None if is_same else PackedRequest.of(normalized)


def _prepare_prompt(
    adapter: ModelAdapter, request: NormalizedRequest, prompt: str | tuple[int, ...]
) -> PreparedInput:
    try:
        return adapter.prepare_text(request, prompt)
    except ContextTooLong:
        if request.context_overflow in (None, "error"):
            raise
    num_tokens = max_prompt_tokens(request, adapter.context_length(request))
    return adapter.prepare_text(replace(request, max_prompt_tokens=num_tokens), prompt)


def _prepare_conversation(adapter: ModelAdapter, request: NormalizedRequest) -> PreparedInput:
    try:
        return adapter.prepare_input(request)
    except ContextTooLong:
        if request.context_overflow in (None, "error"):
            raise
        shorter = shorten(
            request, adapter.count_prompt_tokens, context_length=adapter.context_length(request)
        )
        if shorter is None:
            raise
    dropped = len(request.messages) - len(shorter.messages)
    return replace(adapter.prepare_input(shorter), num_dropped_messages=dropped)


def _without_image_bytes(request: GenerationRequest) -> GenerationRequest:
    """Return the request with digests in place of images and clips."""
    if not any(message.num_images for message in request.messages):
        return request
    return replace(request, messages=tuple(map(_without_bytes, request.messages)))


def _without_bytes(message: Message) -> Message:
    return replace(message, parts=tuple(map(_digested, message.parts)))


def _digested(part: Part) -> Part:
    if isinstance(part, ToolResultPart):
        return replace(part, content=tuple(_digest_image(inner) for inner in part.content))
    return _digest_image(part) if isinstance(part, ImagePart | VideoPart) else part


def _digest_image(part: ShownPart) -> ShownPart:
    if isinstance(part, VideoPart):
        # Its text needs the times of the frames.
        clip = None if part.clip is None else replace(part.clip, pictures=())
        return replace(part, files=tuple(blake2b(file).digest() for file in part.files), clip=clip)
    return replace(part, data=blake2b(part.data).digest()) if isinstance(part, ImagePart) else part
