"""From a request to what its model takes: in place when that is quick, else in another thread. Knows no engine."""

import asyncio
from collections.abc import Sequence

from mlxctl.adapters import ModelAdapter, PreparedInput, PromptTokens
from mlxctl.errors import ContextTooLong
from mlxctl.inference.shortening import shortened
from mlxctl.ir import EmbeddingRequest, GenerationRequest

# Rendering and tokenising a prompt of fewer characters than this takes less time than handing it to another thread and back.
_INLINE_CHARACTERS = 4096


async def prepare(adapter: ModelAdapter, request: GenerationRequest) -> list[PreparedInput]:
    """Return one input for each prompt; a conversation is one. Raises InvalidRequest, ContextTooLong."""

    def prepare_all() -> list[PreparedInput]:
        if request.prompts:
            return [adapter.prepare_text(request, prompt) for prompt in request.prompts]
        return [_prepare_conversation(adapter, request)]

    return prepare_all() if _is_short(request) else await asyncio.to_thread(prepare_all)


async def count_tokens(adapter: ModelAdapter, request: GenerationRequest) -> int:
    """Count the tokens of a conversation's prompt, which may be longer than the model takes. Raises InvalidRequest."""
    if _is_short(request):
        return adapter.count_prompt_tokens(request)
    return await asyncio.to_thread(adapter.count_prompt_tokens, request)


async def prompt_tokens(adapter: ModelAdapter, request: GenerationRequest) -> PromptTokens:
    """Return a conversation's prompt. Raises InvalidRequest."""
    if _is_short(request):
        return adapter.prompt_tokens(request)
    return await asyncio.to_thread(adapter.prompt_tokens, request)


async def prepare_texts(adapter: ModelAdapter, request: EmbeddingRequest) -> list[Sequence[int]]:
    """Return the token ids of all texts to be embedded. Raises InvalidRequest, ContextTooLong."""

    def prepare_all() -> list[Sequence[int]]:
        return [
            adapter.prepare_embedding(text, f"input[{place}]", prompt_name=request.prompt_name, may_cut=request.may_cut)
            for place, text in enumerate(request.inputs)
        ]

    return prepare_all() if sum(map(len, request.inputs)) < _INLINE_CHARACTERS else await asyncio.to_thread(prepare_all)


def _is_short(request: GenerationRequest) -> bool:
    """Whether the prompt is prepared in less time than a thread takes."""
    has_images = any(message.num_images for message in request.messages)
    if has_images or request.tools or request.constraint or request.sampling.repetition:
        return False
    return sum(len(message.text) for message in request.messages) + sum(map(len, request.prompts)) < _INLINE_CHARACTERS


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
