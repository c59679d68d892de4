"""Tokens and times of one answer: measured, displayed, and saved. Pure."""

import msgspec


class AnswerStatistics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Statistics of one answer; None where the server does not report tokens.

    `cached_tokens` are those of `prompt_tokens` that were not prefilled, `thinking_tokens` are a part of
    `completion_tokens`.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    thinking_tokens: int | None = None
    first_token_seconds: float | None = None
    tokens_per_second: float | None = None

    def line(self) -> str:
        """Return the statistics on one line."""
        parts = []
        if self.completion_tokens is not None:
            parts.append(f"{self.completion_tokens:,} token{'' if self.completion_tokens == 1 else 's'}")
        if self.tokens_per_second is not None:
            parts.append(f"{self.tokens_per_second:.0f} tok/s")
        if self.first_token_seconds is not None:
            parts.append(f"first {self.first_token_seconds:.2f} s")
        if self.prompt_tokens is not None:
            parts.append(f"cached {self.cached_tokens or 0:,} of {self.prompt_tokens:,}")
        return "  ".join(parts)
