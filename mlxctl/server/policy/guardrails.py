"""Guardrails: texts that prompts or answers must not have.

Regular expressions are those of the package `regex`, which finds the beginning of a match at the end of a
text.
"""

import logging
from collections.abc import Sequence
from typing import Any, Literal

import regex
from msgspec import UNSET, Struct, UnsetType

from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.policy import GuardrailRules, is_model_allowed

MAX_MATCH_CHARS = 4096
"""Longest text that a pattern can match in a stream."""

MAX_RULE_CHARS = 100_000
"""Characters of all words and patterns together; they are compiled in about 0.3 s."""

REPLACEMENT = "[redacted]"
_CONTEXT_CHARS = 64
_STREAM_SECONDS = 0.05
_TEXT_SECONDS = 2.0

Verdict = Literal["refused", "redacted", "flagged"]
_VERDICTS: dict[str, Verdict] = {"refuse": "refused", "redact": "redacted", "flag": "flagged"}

_log = logging.getLogger(__name__)


class GuardrailMatch(Struct, kw_only=True):
    """A text of a request with a match.

    `text` is what the model may read, `where` its field. Messages are counted from 0, the system prompt
    included.
    """

    where: str
    verdict: Verdict
    text: str


class GuardrailTest(Struct, kw_only=True):
    """What the guardrails do to a text or to a request.

    `verdict` is null without a match. `text` is the text as it may be sent, `matches` are the texts of a
    request that match.
    """

    verdict: Verdict | None
    text: str | UnsetType = UNSET
    matches: list[GuardrailMatch] | UnsetType = UNSET


class Guardrails:
    """Compiled rules. Raises InvalidRequest for a pattern that cannot be used."""

    def __init__(self, rules: GuardrailRules) -> None:
        self.rules = rules
        self._patterns = compile_rules(rules)

    def applies(self, where: Literal["input", "output"], model: str) -> bool:
        """Whether there are rules for prompts or answers of the model."""
        return (
            bool(self._patterns)
            and where in self.rules.apply_to
            and is_model_allowed(self.rules.models, model)
        )

    def text_filter(self) -> "GuardrailFilter":
        """Return a filter for one text of an answer."""
        return GuardrailFilter(self._patterns, self.rules.action, seconds=_STREAM_SECONDS)

    def check(self, pieces: Sequence[str]) -> tuple[list[str], Verdict | None]:
        """Return the allowed pieces of one text, and the verdict."""
        filtered = GuardrailFilter(self._patterns, self.rules.action, seconds=_TEXT_SECONDS)
        shown = [filtered.feed(piece) for piece in pieces]
        if rest := filtered.finish():
            shown[-1] += rest
        return shown, filtered.verdict


class GuardrailFilter:
    """Filters one text that comes in pieces.

    A text that could become a match is held back. Every chunking gives the same text. `verdict` says what was
    done so far; once "refused", nothing more is returned. A search that takes too long counts as a match.
    """

    def __init__(self, patterns: tuple[Any, ...], action: str, *, seconds: float) -> None:
        self.verdict: Verdict | None = None
        self._patterns = patterns
        self._action = action
        self._seconds = seconds
        self._sent = ""
        self._held = ""

    @property
    def holds_back(self) -> bool:
        """Whether text is held back, which could become a match."""
        return bool(self._held)

    def feed(self, text: str) -> str:
        """Take the next piece, and return what may be sent."""
        return self._take(text, is_last=False)

    def finish(self) -> str:
        """Return the text that was held back."""
        return self._take("", is_last=True)

    def _take(self, text: str, *, is_last: bool) -> str:
        if self.verdict == "refused":
            return ""
        self._held += text
        shown = ""
        while self._held:
            start, end, is_whole = self._search(is_last=is_last)
            if not is_whole:
                # A match may begin at `start`, but not further back than the longest match.
                start = max(start, len(self._held) - MAX_MATCH_CHARS)
                return shown + self._pass(start)
            self.verdict = _VERDICTS[self._action]
            shown += self._pass(start)
            if self._action == "refuse":
                self._held = ""
                break
            matched = self._pass(end - start)
            shown += REPLACEMENT if self._action == "redact" else matched
        return shown

    def _pass(self, num_chars: int) -> str:
        """Take characters off the held text.

        Patterns may look back at the last of them.
        """
        passed, self._held = self._held[:num_chars], self._held[num_chars:]
        self._sent = (self._sent + passed)[-_CONTEXT_CHARS:]
        return passed

    def _search(self, *, is_last: bool) -> tuple[int, int, bool]:
        """Return the first match in the held text: start, end, whether complete.

        An incomplete one begins at the end of the held text if there is none.
        """
        whole, offset = self._sent + self._held, len(self._sent)
        first, last, is_whole = len(whole), len(whole), False
        for pattern in self._patterns:
            try:
                found = pattern.search(whole, offset, partial=not is_last, timeout=self._seconds)
            except TimeoutError:
                _log.error("a guardrail took longer than %g s and counts as a match", self._seconds)
                return 0, len(self._held), True
            if found is not None and found.end() > found.start() and found.start() < first:
                # A match that touches the end may become longer, or none at all.
                is_open = not is_last and (found.partial or found.end() == len(whole))
                first, last, is_whole = found.start(), found.end(), not is_open
            elif found is not None and found.partial and found.start() < first:
                first, last, is_whole = found.start(), len(whole), False
        return first - offset, last - offset, is_whole


def try_rules(rules: GuardrailRules, text: str) -> GuardrailTest:
    """Return what the rules do to a text. Raises InvalidRequest."""
    shown, verdict = Guardrails(rules).check([text])
    return GuardrailTest(verdict=verdict, text=shown[0])


def compile_rules(rules: GuardrailRules) -> tuple[Any, ...]:
    """Return the patterns of the rules. Raises InvalidRequest."""
    num_chars = sum(map(len, (*rules.blocklist, *rules.regex)))
    if num_chars > MAX_RULE_CHARS:
        raise InvalidRequest(
            f"blocklist and regex have {num_chars:,} characters together; the maximum is {MAX_RULE_CHARS:,}",
            param="blocklist",
        )
    patterns = [_compile(text, f"regex[{index}]", 0) for index, text in enumerate(rules.regex)]
    if rules.blocklist:
        words = "|".join(regex.escape(word, literal_spaces=True) for word in rules.blocklist)
        patterns.append(_compile(rf"(?<!\w)(?:{words})(?!\w)", "blocklist", regex.IGNORECASE))
    return tuple(patterns)


def _compile(pattern: str, param: str, flags: int) -> Any:
    try:
        compiled = regex.compile(pattern, flags)
        if compiled.search("") is not None:
            raise InvalidRequest(f"{param} matches empty text; it would match everywhere", param=param)
    except regex.error as error:
        raise InvalidRequest(f"{param} is not a regular expression: {error}", param=param) from None
    return compiled
