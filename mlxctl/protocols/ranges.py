"""Ranges of numbers and lists in request bodies, shared by all protocols.

Those of sampling values are in `ir`, which the chat knows too.
"""

from typing import Annotated

from msgspec import Meta

from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.sampling_ranges import AdditivePenalty as AdditivePenalty
from mlxctl.ir.sampling_ranges import MaxTokens as MaxTokens
from mlxctl.ir.sampling_ranges import MinP as MinP
from mlxctl.ir.sampling_ranges import RepetitionPenalty as RepetitionPenalty
from mlxctl.ir.sampling_ranges import Seed as Seed
from mlxctl.ir.sampling_ranges import Temperature as Temperature
from mlxctl.ir.sampling_ranges import TopK as TopK
from mlxctl.ir.sampling_ranges import TopP as TopP
from mlxctl.ir.sampling_ranges import seed_option as seed_option
from mlxctl.ir.sampling_ranges import top_k_option as top_k_option

LogitBias = Annotated[
    dict[Annotated[int, Meta(ge=0)], Annotated[float, Meta(ge=-100, le=100)]], Meta(max_length=1024)
]
MAX_TOP_LOGPROBS = 20
NumTopLogprobs = Annotated[int, Meta(ge=0, le=MAX_TOP_LOGPROBS)]
PromptTokenLimit = Annotated[int, Meta(ge=-1)]
MaxTokensOrZero = Annotated[int, Meta(ge=0)]
AnswerTokenLimit = Annotated[int, Meta(ge=-1)]
"""A maximum of answer tokens; -1 is none, as in LM Studio and llama.cpp."""
StopString = Annotated[str, Meta(min_length=1, max_length=4096)]
StopStrings = Annotated[list[StopString], Meta(max_length=16)]
StopTokenIds = Annotated[list[Annotated[int, Meta(ge=0, lt=2**31)]], Meta(max_length=128)]
Name = Annotated[str, Meta(min_length=1, max_length=1024)]
Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)
]

MAX_MESSAGES = 8192
"""The most messages, items or parts of a message in one list."""

MAX_TOOLS = 2048
"""The most tools that one request may offer."""

MessageLimit = Meta(max_length=MAX_MESSAGES)
ToolLimit = Meta(max_length=MAX_TOOLS)

MAX_ANSWERS = 128
"""The most answers that one request may ask for, all prompts together."""

NumChoices = Annotated[int, Meta(ge=1, le=MAX_ANSWERS)]


def answer_token_limit(value: int | None, param: str) -> int | None:
    """Return the limit in the field `param`, None without one.

    Raises InvalidRequest for 0.
    """
    if value == 0:
        raise InvalidRequest(f"{param} must be an integer >= 1, or -1 for no limit", param=param)
    return None if value == -1 else value
