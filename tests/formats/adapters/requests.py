"""Requests as the protocols create them."""

from typing import Any

from mlxctl.formats.adapters import ModelAdapter, PreparedInput
from mlxctl.ir import GenerationRequest, Message, ToolSpec, text_message

WEATHER = ToolSpec(
    name="get_weather",
    description="Tells the weather.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
TIME = ToolSpec(name="now")


def ask(*messages: Message, **more: Any) -> GenerationRequest:
    """Return a request; without messages the user says hello."""
    return GenerationRequest(model="small", messages=messages or (text_message("user", "Hello"),), **more)


def prepare(adapter: ModelAdapter, request: GenerationRequest) -> PreparedInput:
    """Prepare a request as the server does."""
    return adapter.prepare_input(adapter.normalized(request))


def prompt_of(adapter: ModelAdapter, request: GenerationRequest) -> str:
    """Return the prompt as the model reads it, with special tokens."""
    return decode(adapter, prepare(adapter, request).token_ids)


def decode(adapter: ModelAdapter, token_ids: tuple[int, ...]) -> str:
    """Return the text of the ids."""
    detokenizer = adapter.vocabulary.detokenizer()
    return "".join(detokenizer.feed(token_id) for token_id in token_ids) + detokenizer.finish()
