"""Counts and distributions of ended requests by model. Event-loop thread only."""

from collections import Counter
from typing import NamedTuple

from mlxctl.inference.request_entry import RequestView
from mlxctl.ir.distribution import Distribution

FIRST_TOKEN_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
NEXT_TOKEN_SECONDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
REQUEST_SECONDS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
QUEUE_SECONDS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
PREFILL_SPEEDS = (50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0, 25000.0)
TOKENS = (16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 32768.0, 65536.0, 131072.0, 262144.0)
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
VISION_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RequestEnd(NamedTuple):
    """How a request ended: state, finish reason and protocol.

    Empty where there is none.
    """

    state: str
    finish_reason: str
    protocol: str


class ModelTotals:
    """Ended requests of one model; `ends` counts them by RequestEnd.

    `next_token` has one value per request: its mean time between tokens, in seconds. Prefix matches are
    counted for requests that looked into the prefix cache.
    """

    __slots__ = (
        "ends",
        "first_token",
        "match_ratio",
        "match_tokens",
        "next_token",
        "num_cached",
        "num_generated",
        "num_prompt",
        "prefill",
        "prefill_speed",
        "prompt_tokens",
        "queue",
        "vision",
        "whole",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ends: Counter[RequestEnd] = Counter()
        self.num_prompt = self.num_cached = self.num_generated = 0
        self.first_token = Distribution.of(FIRST_TOKEN_SECONDS)
        self.next_token = Distribution.of(NEXT_TOKEN_SECONDS)
        self.whole = Distribution.of(REQUEST_SECONDS)
        self.queue = Distribution.of(QUEUE_SECONDS)
        self.prefill = Distribution.of(FIRST_TOKEN_SECONDS)
        self.prefill_speed = Distribution.of(PREFILL_SPEEDS)
        self.prompt_tokens = Distribution.of(TOKENS)
        self.match_tokens = Distribution.of(TOKENS)
        self.match_ratio = Distribution.of(RATIOS)
        self.vision = Distribution.of(VISION_SECONDS)

    def add(self, view: RequestView) -> None:
        """Count an ended request."""
        self.ends[RequestEnd(view.state, view.finish_reason or "", view.protocol or "")] += 1
        self.num_prompt += view.num_read_tokens
        self.num_cached += view.num_cached_tokens
        self.num_generated += view.num_generated_tokens
        self.whole.add(view.age_seconds)
        self.prompt_tokens.add(view.num_prompt_tokens)
        if view.first_token_seconds is not None:
            self.first_token.add(view.first_token_seconds)
        if view.tokens_per_second:
            self.next_token.add(1 / view.tokens_per_second)
        self._add_prefill(view)

    def _add_prefill(self, view: RequestView) -> None:
        for distribution, value in (
            (self.queue, view.queue_seconds),
            (self.prefill, view.prefill_seconds),
            (self.prefill_speed, view.prefill_tokens_per_second),
            (self.vision, view.vision_seconds),
        ):
            if value is not None:
                distribution.add(value)
        if view.hit is not None:
            self.match_tokens.add(view.num_cached_tokens)
            self.match_ratio.add(view.num_cached_tokens / max(view.num_prompt_tokens, 1))
