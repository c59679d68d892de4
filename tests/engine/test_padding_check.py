"""Models whose recurrent states padding would change read prompts one by one."""

import pytest

from mlxctl.engine.generation.loading import load_text_model
from mlxctl.state.settings import EngineSettings
from tests.engine.harness import result_of, sources
from tests.engine.stepped_engine import SteppedEngine

PROMPTS = [[20 + (place * 7 + number) % 400 for place in range(5 + 4 * number)] for number in range(6)]


@pytest.mark.parametrize(
    ("family", "can_pad"),
    [("qwen3", True), ("gemma3", True), ("lfm2", True), ("qwen3_next", True), ("mamba", False)],
)
def test_padding_of_recurrent_layers_is_tried_at_loading(family: str, can_pad: bool) -> None:
    (spec,) = sources([family])
    assert result_of(load_text_model(spec)).can_pad_prompts is can_pad


@pytest.mark.parametrize("family", ["lfm2", "qwen3_next", "mamba"])
def test_prompts_of_a_burst_have_the_answers_that_each_has_alone(family: str) -> None:
    engine = SteppedEngine(family)
    alone = []
    for prompt in PROMPTS:
        alone.append(engine.submit(prompt, max_tokens=12, mode="off"))
        engine.run(lambda: engine.is_done(alone[-1]))

    burst = [engine.submit(prompt, max_tokens=12, mode="off") for prompt in PROMPTS]
    engine.run(lambda: engine.is_done(*burst))
    assert [engine.tokens(row) for row in burst] == [engine.tokens(row) for row in alone]


def test_models_that_cannot_pad_decode_without_drafts(caplog: pytest.LogCaptureFixture) -> None:
    SteppedEngine("mamba", settings=EngineSettings(speculation="lookup"))
    assert "its recurrent layers read padding like tokens" in caplog.text
