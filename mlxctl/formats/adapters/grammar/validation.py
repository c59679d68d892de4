"""Checks that a grammar works with the model's own tokens."""

from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.formats.grammars import Definition, compile_constraint, compose
from mlxctl.ir import Constraint
from mlxctl.ir.errors import InvalidRequest

_TRIED_STEPS = 8


class GrammarValidator:
    """Compiles constraints for one model and tries their first step. Thread-safe.

    A grammar may refer to tokens that the model does not have, or match nothing at all, which only shows in
    use. The vocabulary is prepared by `read_vocabulary`, or for the first grammar.
    """

    def __init__(self, vocabulary: Vocabulary, stop_token_ids: frozenset[int]) -> None:
        self._vocabulary = vocabulary
        self._stop_token_ids = stop_token_ids
        self._lock = Lock()
        # PERF: agents send the same tools and schemas with every turn.
        self._cached_error = lru_cache(maxsize=64)(self._find_error)

    def read_vocabulary(self) -> None:
        """Prepare the vocabulary now instead of for the first grammar.

        Blocks for a second or two.
        """
        with self._lock:
            _ = self._tokenizer

    def compile(self, constraint: Constraint) -> Definition:
        """Return the grammar of a constraint.

        Raises InvalidRequest with the reason and the field.
        """
        return self.check(compile_constraint(constraint), constraint.param)

    def check(self, definition: Definition, param: str) -> Definition:
        """Return a grammar that can be matched.

        Raises InvalidRequest for the field `param`.
        """
        if error := self._cached_error(compose("start: @output", {"output": definition})):
            raise InvalidRequest(f"{param} cannot be enforced for this model: {error}", param=param)
        return definition

    def _find_error(self, grammar: str) -> str:
        from llguidance import LLMatcher

        with self._lock:
            tokenizer = self._tokenizer
        if tokenizer is None:
            return "grammars do not support its tokenizer"
        matcher = LLMatcher(tokenizer, grammar)
        if matcher.is_error():
            return matcher.get_error().partition("\n")[0].partition(";")[0]
        matcher.compute_bitmask()
        return "no text matches it" if matcher.is_error() else _limit_error(matcher)

    @cached_property
    def _tokenizer(self) -> Any:
        from llguidance import LLTokenizer

        try:
            return LLTokenizer(self._vocabulary.serialized(), eos_token=sorted(self._stop_token_ids) or None)
        except ValueError:
            return None


def _limit_error(matcher: Any) -> str:
    """Return why a grammar exceeds llguidance's limits, else "".

    Its first steps are tried.     The number of alternatives is checked only where a text reaches them.
    """
    for _ in range(_TRIED_STEPS):
        bits = matcher.compute_bitmask()
        if matcher.is_error() or matcher.is_stopped():
            break
        first = next((index for index, byte in enumerate(bits) if byte), None)
        if first is None:
            break
        matcher.try_consume_tokens([8 * first + (bits[first] & -bits[first]).bit_length() - 1])
    error: str = matcher.get_error() if matcher.is_error() else ""
    return f"it is too large: {error.partition(';')[0]}" if "max is" in error else ""
