"""Ranges of sampling values, shared by the protocols and the chat.

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
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
MaxTokens = Annotated[int, Meta(ge=1)]


def top_k_option(top_k: int | None) -> int | None:
    """Return `top_k`, with -1 (off) as 0."""
    return None if top_k is None else max(top_k, 0)


def seed_option(seed: int | None) -> int | None:
    """Return `seed` as 63 bits; a negative one loses its sign bit."""
    return None if seed is None else seed & (2**63 - 1)
