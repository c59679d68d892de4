"""The body of `POST /v1/completions`: text to be continued as it is, as OpenAI documented it before chats, plus what users of other
servers send (top_k, min_p, repetition_penalty). Null means unsaid everywhere; fields that are not here are ignored.
"""

from typing import Annotated

from msgspec import Meta, Struct

from mlxctl.protocols.openai.chat_schema import StreamOptions
from mlxctl.protocols.ranges import (
    AdditivePenalty,
    LogitBias,
    MaxTokens,
    MinP,
    Name,
    NumChoices,
    NumTopLogprobs,
    RepetitionPenalty,
    Seed,
    StopString,
    StopStrings,
    Temperature,
    TopK,
    TopP,
)

TokenId = Annotated[int, Meta(ge=0)]


class CompletionRequest(Struct):
    """The whole body. A `prompt` is one text, a list of texts, one list of token ids, or a list of such lists."""

    model: Name
    prompt: str | list[str | TokenId | list[TokenId]]
    n: NumChoices | None = None
    best_of: NumChoices | None = None
    max_tokens: MaxTokens | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    repetition_penalty: RepetitionPenalty | None = None
    presence_penalty: AdditivePenalty | None = None
    frequency_penalty: AdditivePenalty | None = None
    logit_bias: LogitBias | None = None
    seed: Seed | None = None
    stop: StopString | StopStrings | None = None
    logprobs: NumTopLogprobs | None = None
    echo: bool | None = None
    suffix: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
