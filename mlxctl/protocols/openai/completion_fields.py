"""Fields that chat completions and completions share, and their options."""

from typing import Any

from msgspec import Struct

from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.openai.unsupported_fields import RefusedFields
from mlxctl.protocols.ranges import NumChoices, NumTopLogprobs, StopString, StopStrings, StopTokenIds


class StreamOptions(Struct):
    """Options of a stream.

    With `continuous_usage_stats` (vLLM) and `include_usage` every chunk has the counts so far.
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


def check_stream_options(options: StreamOptions | None, *, stream: bool | None) -> None:
    """Refuse options of a stream without a stream. Raises InvalidRequest."""
    if options is not None and not stream:
        message = "stream_options needs stream to be true; leave it out or set stream"
        raise InvalidRequest(message, param="stream_options")


def counts_every_chunk(options: StreamOptions | None) -> bool:
    """Whether every chunk has the counts so far."""
    return bool(options and options.include_usage and options.continuous_usage_stats)


class CompletionFields(RefusedFields, kw_only=True):
    """Base of both bodies: OpenAI's and vLLM's fields."""

    n: NumChoices | None = None
    stop: StopString | StopStrings | None = None
    stop_token_ids: StopTokenIds | None = None
    ignore_eos: bool | None = None
    prompt_logprobs: NumTopLogprobs | None = None
    return_tokens_as_token_ids: bool | None = None
    return_token_ids: bool | None = None
    echo: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


def shared_options(fields: CompletionFields) -> dict[str, Any]:
    """Return what both bodies set of a GenerationRequest."""
    return {
        "stop": (fields.stop,) if isinstance(fields.stop, str) else tuple(fields.stop or ()),
        "stop_token_ids": tuple(fields.stop_token_ids or ()),
        "ignore_eos": bool(fields.ignore_eos),
        "stream": bool(fields.stream),
        "returns_token_ids": bool(fields.return_token_ids),
    }
