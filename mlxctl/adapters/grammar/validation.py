"""Whether a form can be matched with a model's own tokens: the last question before the engine relies on it."""

from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

from mlxctl.adapters.tokens.vocabulary import Vocabulary
from mlxctl.errors import InvalidRequest
from mlxctl.grammars import Definition, compile_constraint, compose
from mlxctl.ir import Constraint


class GrammarValidator:
    """Compiles forms for one model, and tries their first step. Thread-safe.

    A form may refer to tokens that the model does not have, or match nothing at all, which only shows when it
    is used. The vocabulary is read for it by `read_vocabulary`, or when the first form comes.
    """

    def __init__(self, vocabulary: Vocabulary, stop_token_ids: frozenset[int]) -> None:
        self._vocabulary = vocabulary
        self._stop_token_ids = stop_token_ids
        self._lock = Lock()
        # PERF: agents send the same tools and schemas with every turn.
        self._complaint = lru_cache(maxsize=64)(self._find_complaint)

    def read_vocabulary(self) -> None:
        """Read the vocabulary now; else the first form does. Blocks for a second or two."""
        with self._lock:
            _ = self._tokenizer

    def compile(self, constraint: Constraint) -> Definition:
        """Return the grammar of a form. Raises InvalidRequest that says what is wrong, and where."""
        return self.check(compile_constraint(constraint), constraint.param)

    def check(self, definition: Definition, param: str) -> Definition:
        """Return a grammar that can be matched. Raises InvalidRequest that names `param`."""
        if complaint := self._complaint(compose("start: @form", {"form": definition})):
            raise InvalidRequest(f"{param} cannot be enforced for this model: {complaint}", param=param)
        return definition

    def _find_complaint(self, grammar: str) -> str:
        from llguidance import LLMatcher

        with self._lock:
            tokenizer = self._tokenizer
        if tokenizer is None:
            return "its tokenizer is of a kind that grammars cannot be matched with"
        matcher = LLMatcher(tokenizer, grammar)
        if matcher.is_error():
            return matcher.get_error().partition("\n")[0].partition(";")[0]
        matcher.compute_bitmask()
        return "no text fits it" if matcher.is_error() else ""

    @cached_property
    def _tokenizer(self) -> Any:
        from llguidance import LLTokenizer

        try:
            return LLTokenizer(self._vocabulary.serialized(), eos_token=sorted(self._stop_token_ids) or None)
        except ValueError:
            return None
