"""Compilation of token constraints on a separate thread.

Loading a vocabulary takes up to a second, compiling a large grammar several hundred milliseconds.
"""

from array import array
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from llguidance import LLTokenizer

from mlxctl.engine.constraints.matcher import GrammarMatcher
from mlxctl.engine.constraints.repetition import RepetitionPenalty
from mlxctl.engine.constraints.thinking_budget import ThinkingBudget
from mlxctl.engine.constraints.token_constraint import TokenConstraint
from mlxctl.engine.wire.commands import Submit

_EosTokenIds = frozenset[int]


class GrammarCompiler:
    """Queue of requests whose token constraint is being compiled.

    Methods are called on the MLX thread. A model's vocabulary is loaded by `load_announced` or with its first
    grammar, and dropped with the model.
    """

    def __init__(self, *, wake: Callable[[], None]) -> None:
        """`wake` is called on the compiler thread when `take_compiled` has a result."""
        self._wake = wake
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grammars")
        self._paths: dict[str, Path] = {}
        self._tokenizers: dict[tuple[str, _EosTokenIds], LLTokenizer] = {}
        self._announced: dict[tuple[str, _EosTokenIds], int] = {}
        self._waiting: list[tuple[Submit, Future[TokenConstraint]]] = []

    def open_model(self, name: str, path: Path) -> None:
        """Accept requests for the model at `path`."""
        self._paths[name] = path

    def announce(self, name: str, eos_token_ids: frozenset[int], vocabulary_size: int) -> None:
        """Note that grammars of a model will need its vocabulary."""
        self._announced[name, eos_token_ids] = vocabulary_size

    def load_announced(self) -> None:
        """Start to load the announced vocabularies; call it while no row decodes.

        The library holds the interpreter lock for up to a second, which stops every stream. An unreadable
        tokenizer fails the requests that need it.
        """
        announced, self._announced = self._announced, {}
        for (name, eos_token_ids), vocabulary_size in announced.items():
            self._thread.submit(self._tokenizer, name, eos_token_ids, vocabulary_size)

    def close_model(self, name: str) -> None:
        """Drop tokenizers and path of a model."""
        self._paths.pop(name, None)
        self._tokenizers = {key: tokenizer for key, tokenizer in self._tokenizers.items() if key[0] != name}
        self._announced = {key: size for key, size in self._announced.items() if key[0] != name}

    @property
    def compiling(self) -> tuple[Submit, ...]:
        """Requests whose constraint is being compiled."""
        return tuple(submit for submit, _ in self._waiting)

    def has_work_for(self, name: str) -> bool:
        """Whether requests for the model are being compiled."""
        return any(submit.model == name for submit, _ in self._waiting)

    def compile(self, submit: Submit, *, vocabulary_size: int) -> None:
        """Start to compile a request's constraint; `vocabulary_size` is the logits' width."""
        future = self._thread.submit(self._compile, submit, vocabulary_size)
        self._waiting.append((submit, future))
        future.add_done_callback(lambda _: self._wake())

    def cancel(self, sequence_ids: AbstractSet[int]) -> None:
        """Drop the pending grammars of these requests."""
        for submit, future in self._waiting:
            if submit.sequence_id in sequence_ids:
                future.cancel()
        self._waiting = [pair for pair in self._waiting if pair[0].sequence_id not in sequence_ids]

    def take_compiled(self) -> list[tuple[Submit, TokenConstraint | str]]:
        """Return finished requests with their constraint, or an error message."""
        # `done` is asked once for each: a compilation that ends meanwhile is left to the next call.
        compiled: list[tuple[Submit, Future[TokenConstraint]]] = []
        waiting: list[tuple[Submit, Future[TokenConstraint]]] = []
        for pair in self._waiting:
            (compiled if pair[1].done() else waiting).append(pair)
        self._waiting = waiting
        return [(submit, _outcome(future)) for submit, future in compiled]

    def close(self) -> None:
        """End the thread after the current compilation, without further `wake` calls."""
        self._thread.shutdown(cancel_futures=True)

    def _compile(self, submit: Submit, vocabulary_size: int) -> TokenConstraint:
        guidance, repetition = submit.guidance, submit.sampling.repetition
        grammar = thinking = penalty = None
        if guidance is not None and guidance.grammar:
            tokenizer = self._tokenizer(submit.model, frozenset(guidance.eos_token_ids), vocabulary_size)
            grammar = GrammarMatcher(tokenizer, guidance.grammar, start=guidance.grammar_start)
        if guidance is not None and guidance.thinking is not None:
            thinking = ThinkingBudget(guidance.thinking)
        if repetition is not None:
            prompt = array("I", submit.prompt_token_ids)
            penalty = RepetitionPenalty(
                repetition, breaker_ids=submit.sampling.repetition_breaker_ids, prompt=prompt
            )
        return TokenConstraint(grammar=grammar, thinking=thinking, repetition=penalty)

    def _tokenizer(self, name: str, eos_token_ids: _EosTokenIds, vocabulary_size: int) -> LLTokenizer:
        if (name, eos_token_ids) not in self._tokenizers:
            text = (self._paths[name] / "tokenizer.json").read_text(encoding="utf-8")
            # PERF: each call holds the interpreter lock; for 150,000 tokens 0.6 and 0.2 s, together 0.8 s.
            tokenizer = LLTokenizer(
                text, n_vocab=vocabulary_size, eos_token=sorted(eos_token_ids) or None, slices=[]
            )
            self._tokenizers[name, eos_token_ids] = tokenizer.with_slices(LLTokenizer.general_slices())
        return self._tokenizers[name, eos_token_ids]


def needs_constraint(submit: Submit) -> bool:
    """Whether a request has a grammar, thinking budget or repetition penalty."""
    return submit.guidance is not None or submit.sampling.repetition is not None


def _outcome(future: "Future[TokenConstraint]") -> TokenConstraint | str:
    if (error := future.exception()) is not None:
        return f"the grammar cannot be used with this model: {error}"
    constraint = future.result()
    return (
        f"the grammar cannot be used with this model: {constraint.failure}"
        if constraint.failure
        else constraint
    )
