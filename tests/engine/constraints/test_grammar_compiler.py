"""Vocabularies of grammars are loaded while nothing decodes.

They are loaded when they are announced.
"""

import shutil
import threading
from array import array
from pathlib import Path

import pytest

from mlxctl.engine.constraints import GrammarCompiler
from mlxctl.engine.wire.commands import Submit
from mlxctl.ir import Guidance, Repetition, SamplingParams
from tests import tiny_models

STOPS = frozenset({503})


class Compiling:
    """A compiler of one model whose tokenizer file can be deleted."""

    def __init__(self, directory: Path) -> None:
        self.tokenizer = Path(shutil.copy(tiny_models.model("qwen3") / "tokenizer.json", directory))
        self.is_done = threading.Event()
        self.compiler = GrammarCompiler(wake=self.is_done.set)
        self.compiler.open_model("m", directory)

    def outcome(
        self, *, grammar: str = "", repetition: Repetition | None = None, stops: tuple[int, ...] = ()
    ) -> object:
        """Compile one request and return its constraint, or the error."""
        self.is_done.clear()
        submit = Submit(
            sequence_id=1,
            model="m",
            prompt_token_ids=array("I", [5]).tobytes(),
            sampling=SamplingParams(temperature=0, repetition=repetition),
            stop_token_ids=[*STOPS, *stops],
            max_tokens=4,
            guidance=Guidance(grammar=grammar, eos_token_ids=tuple(STOPS)) if grammar else None,
        )
        self.compiler.compile(submit, vocabulary_size=512)
        assert self.is_done.wait(60)
        return self.compiler.take_compiled()[0][1]


@pytest.mark.parametrize("is_loaded", [True, False])
def test_announced_vocabulary_is_read_only_while_nothing_decodes(is_loaded: bool, tmp_path: Path) -> None:
    compiling = Compiling(tmp_path)
    compiling.compiler.announce("m", STOPS, 512)
    if is_loaded:
        compiling.compiler.load_announced()
    # One thread compiles everything in turn, so the vocabulary was read before this is done.
    assert not isinstance(compiling.outcome(repetition=Repetition(multiplier=1.0)), str)
    compiling.tokenizer.unlink()

    outcome = compiling.outcome(grammar='start: "yes"')

    assert isinstance(outcome, str) == (not is_loaded)
    compiling.compiler.close()


def test_stop_tokens_of_a_request_need_no_other_vocabulary(tmp_path: Path) -> None:
    compiling = Compiling(tmp_path)
    assert not isinstance(compiling.outcome(grammar='start: "yes"'), str)
    compiling.tokenizer.unlink()

    assert not isinstance(compiling.outcome(grammar='start: "yes"', stops=(17, 18)), str)
    compiling.compiler.close()
