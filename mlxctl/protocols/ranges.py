"""Ranges of numbers and lists in request bodies, shared by all protocols.

They are as wide as sampling allows, not as narrow as one vendor's documentation.
"""

from typing import Annotated

from msgspec import Meta

Temperature = Annotated[float, Meta(ge=0, le=100)]
TopP = Annotated[float, Meta(ge=0, le=1)]
TopK = Annotated[int, Meta(ge=-1)]
MinP = Annotated[float, Meta(ge=0, le=1)]
RepetitionPenalty = Annotated[float, Meta(gt=0, le=10)]
AdditivePenalty = Annotated[float, Meta(ge=-2, le=2)]
LogitBias = Annotated[
    dict[Annotated[int, Meta(ge=0)], Annotated[float, Meta(ge=-100, le=100)]], Meta(max_length=1024)
]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
MAX_TOP_LOGPROBS = 20
NumTopLogprobs = Annotated[int, Meta(ge=0, le=MAX_TOP_LOGPROBS)]
MaxTokens = Annotated[int, Meta(ge=1)]
PromptTokenLimit = Annotated[int, Meta(ge=-1)]
MaxTokensOrZero = Annotated[int, Meta(ge=0)]
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


def top_k_option(top_k: int | None) -> int | None:
    """Return `top_k`, with -1 (off) as 0."""
    return None if top_k is None else max(top_k, 0)


def seed_option(seed: int | None) -> int | None:
    """Return `seed` as 63 bits; a negative one loses its sign bit."""
    return None if seed is None else seed & (2**63 - 1)
