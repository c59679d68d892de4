"""Texts to tokens and back, and rendered prompts: vLLM's and llama.cpp's shapes.

A body with `content` is llama.cpp's and gets its answer; one with `prompt` or `messages` is vLLM's.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from mlxctl.ir import GenerationRequest
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.extension_fields import with_extensions
from mlxctl.protocols.openai.chat_parsing import check_supported, to_generation_request
from mlxctl.protocols.openai.chat_schema import ChatMessage, ChatRequest
from mlxctl.protocols.ranges import MAX_MESSAGES, Name

MAX_TOKENS = 300_000
"""Most tokens of one body or answer."""

TokenIds = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=MAX_TOKENS)]


class TokenizeRequest(ChatRequest, kw_only=True):
    """A text, or a conversation with the fields of a chat completion.

    `prompt`, or llama.cpp's `content`, is the text. Without a `model` the first one is used.
    `add_special_tokens` (`add_special`) puts the BOS token before a text. `return_token_strs` (`with_pieces`)
    adds the text of each token.
    """

    model: Name | None = None  # type: ignore[assignment]
    messages: Annotated[list[ChatMessage], Meta(max_length=MAX_MESSAGES)] = field(default_factory=list)
    prompt: str | None = None
    content: str | None = None
    add_special_tokens: bool | None = None
    add_special: bool | None = None
    return_token_strs: bool | None = None
    with_pieces: bool | None = None


class TemplateRequest(ChatRequest, kw_only=True):
    """A conversation, with the fields of a chat completion."""

    model: Name | None = None  # type: ignore[assignment]


class DetokenizeRequest(Struct, kw_only=True):
    """Body that asks for the text of tokens."""

    tokens: TokenIds
    model: Name | None = None


class Tokenized(Struct, kw_only=True):
    """Tokens of a prompt (vLLM)."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class TokenPiece(Struct):
    """A token with its text.

    `piece` is its text, or its bytes if they are no text.
    """

    id: int
    piece: str | list[int]


class TokenList(Struct):
    """Tokens of a text (llama.cpp)."""

    tokens: list[int | TokenPiece]


class Detokenized(Struct):
    """The text of tokens, under vLLM's and llama.cpp's names."""

    prompt: str
    content: str


class RenderedPrompt(Struct):
    """The prompt of a conversation."""

    prompt: str


_TOKENIZE = msgspec.json.Decoder(TokenizeRequest)
_TEMPLATE = msgspec.json.Decoder(TemplateRequest)
_DETOKENIZE = msgspec.json.Decoder(DetokenizeRequest)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizeShape:
    """Options of the tokenizer, and the shape of the answer.

    It is llama.cpp's if it `is_short`.
    """

    adds_special: bool
    wants_pieces: bool
    is_short: bool

    def encode(self, token_ids: "array[int]", pieces: Sequence[bytes] | None, context_length: int) -> bytes:
        """Return the answer in the shape of the request."""
        ids = token_ids.tolist()
        if self.is_short and pieces is None:
            return _encode(TokenList([*ids]))
        if self.is_short and pieces is not None:
            pairs = zip(ids, map(_piece, pieces), strict=True)
            return _encode(TokenList([TokenPiece(*pair) for pair in pairs]))
        texts = None if pieces is None else [piece.decode("utf-8", "replace") for piece in pieces]
        return _encode(Tokenized(count=len(ids), max_model_len=context_length, tokens=ids, token_strs=texts))


def parse_tokenize(body: bytes) -> tuple[GenerationRequest, TokenizeShape]:
    """Parse a body of `/tokenize`. Raises InvalidRequest.

    The request names the model "" if the body names none.
    """
    decoded = decode_body(body, _TOKENIZE)
    given = [name for name in ("prompt", "content") if getattr(decoded, name) is not None]
    given += ["messages"] if decoded.messages else []
    if len(given) != 1:
        found = f"; the body has {' and '.join(given)}" if given else ""
        raise InvalidRequest(f"send one of prompt, content and messages{found}", param="prompt")
    is_short = given == ["content"]
    shape = TokenizeShape(
        adds_special=bool(decoded.add_special) if is_short else decoded.add_special_tokens is not False,
        wants_pieces=bool(decoded.with_pieces if is_short else decoded.return_token_strs),
        is_short=is_short,
    )
    if decoded.messages:
        return _conversation(decoded), shape
    text = decoded.content if decoded.prompt is None else decoded.prompt
    request = GenerationRequest(model=decoded.model or "", prompts=(text or "",))
    return with_extensions(request, decoded), shape


def parse_template_request(body: bytes) -> GenerationRequest:
    """Parse a body of `/apply-template`. Raises InvalidRequest."""
    decoded = decode_body(body, _TEMPLATE)
    check_supported(decoded)
    return _conversation(decoded)


def parse_detokenize(body: bytes) -> tuple[str, "array[int]"]:
    """Return the model's name, "" if not given, and the token ids.

    Raises InvalidRequest.
    """
    decoded = decode_body(body, _DETOKENIZE)
    try:
        return decoded.model or "", array("I", decoded.tokens)
    except OverflowError:
        raise InvalidRequest("tokens has a number that is not a token id", param="tokens") from None


def encode_text(text: str) -> bytes:
    """Return the answer of `/detokenize`."""
    return _encode(Detokenized(prompt=text, content=text))


def encode_prompt(text: str) -> bytes:
    """Return the answer of `/apply-template`."""
    return _encode(RenderedPrompt(text))


def _conversation(decoded: ChatRequest) -> GenerationRequest:
    return to_generation_request(msgspec.structs.replace(decoded, model=decoded.model or ""))


def _piece(data: bytes) -> str | list[int]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
