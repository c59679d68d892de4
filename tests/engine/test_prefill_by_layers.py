"""Prefill passes in turns of some layers, with decode steps in between."""

import json
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm import load

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.generation.prefill_pass import PrefillPass
from mlxctl.engine.scheduling.batch import TurnLimit
from mlxctl.ir import SamplingParams, TextPart
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.stepped_engine import SteppedEngine
from tests.engine.vision_harness import noise, prepared

# Plain attention, sliding window, short convolutions, linear attention with experts.
FAMILIES = ["qwen3", "gemma3", "lfm2", "qwen3_next"]
SEEDED = SamplingParams(temperature=1.0, seed=7)
STREAM = list(range(20, 30))
LONG = [20 + 7 * place % 400 for place in range(300)]
# No pass fits into the gap, so that every turn computes one layer.
SHORT_TURNS = SchedulerPolicy(target_gap_ms=0.001)


def begun_pass(model: Any) -> tuple[kv.Caches, PrefillPass]:
    caches = kv.new_caches(model)
    model(mx.array([LONG]), cache=caches)
    return caches, PrefillPass(caches, states=None)


@pytest.mark.parametrize("family", FAMILIES)
def test_pass_in_turns_leaves_the_caches_of_a_whole_pass(family: str) -> None:
    model = load(str(tiny_models.model(family)))[0]
    whole, whole_pass = begun_pass(model)
    assert whole_pass.run(None)

    in_turns, pass_in_turns = begun_pass(model)
    num_turns = 1
    while not pass_in_turns.run(TurnLimit(seconds=0.0, finishing_seconds=0.0)):
        num_turns += 1

    # The cache of the first layer needs only a projection.
    assert num_turns == max(1, len(whole) - 1)
    assert all(
        mx.array_equal(one, other).item()
        for one, other in zip(kv.arrays(whole), kv.arrays(in_turns), strict=True)
    )


@pytest.fixture(params=FAMILIES)
def engine(request: pytest.FixtureRequest) -> SteppedEngine:
    return SteppedEngine(request.param)


def test_prompt_in_turns_and_rows_beside_it_get_their_tokens_alone(engine: SteppedEngine) -> None:
    prompts = [STREAM, LONG, [9, 8, 7]]
    alone = [engine.submit(prompt, max_tokens=20, sampling=SEEDED, mode="off") for prompt in prompts]
    for row in alone:
        engine.run(lambda row=row: engine.is_done(row))

    engine.configure(SHORT_TURNS)
    stream = engine.submit(STREAM, max_tokens=20, sampling=SEEDED)
    engine.run(lambda: bool(engine.tokens(stream)))
    long = engine.submit(LONG, max_tokens=20, sampling=SEEDED)
    engine.run(lambda: engine.prompt_amid_pass is not None)
    short = engine.submit([9, 8, 7], max_tokens=20, sampling=SEEDED)
    engine.run(lambda: engine.is_done(stream, long, short))

    assert [engine.tokens(row) for row in (stream, long, short)] == [engine.tokens(row) for row in alone]


@pytest.mark.parametrize("family", ["qwen3", "gemma3", "lfm2"])
def test_prompts_computed_together_in_turns_get_their_tokens_alone(family: str) -> None:
    # Every turn computes one layer.
    engine = SteppedEngine(family, settings=EngineSettings(prefill_turn_seconds=1e-9))
    prompts = [[20 + start + 7 * place % 300 for place in range(60)] for start in (0, 5, 40)]
    alone = [engine.submit(prompt, max_tokens=20, sampling=SEEDED, mode="off") for prompt in prompts]
    for row in alone:
        engine.run(lambda row=row: engine.is_done(row))

    first, left, last = (engine.submit(prompt, max_tokens=20, sampling=SEEDED) for prompt in prompts)
    engine.run(lambda: engine.has_unfinished_joint_pass)
    engine.cancel(left)
    engine.run(lambda: engine.is_done(first, last))

    assert [engine.tokens(row) for row in (first, last)] == [engine.tokens(alone[0]), engine.tokens(alone[2])]
    assert not engine.tokens(left)


@pytest.mark.parametrize("name", ["pixtral_colors", "qwen2_5_vl_colors", *tiny_models.VISION_NAMES])
def test_image_encoded_in_turns_beside_a_stream_gets_the_tokens_alone(name: str) -> None:
    model = tiny_models.model(name) if name in tiny_models.VISION_NAMES else tiny_models.trained(name)
    prompt = prepared(model, noise(1), TextPart(text="What color is this?"))
    engine = SteppedEngine("m", model=model)
    rows = []
    for policy in (SchedulerPolicy(), SHORT_TURNS):
        engine.configure(policy)
        stream = engine.submit(STREAM, max_tokens=10_000, mode="off")
        engine.run(lambda stream=stream: bool(engine.tokens(stream)))
        image = list(prompt.images)
        rows.append(engine.submit(list(prompt.token_ids), max_tokens=20, mode="off", images=image))
        engine.run(lambda row=rows[-1]: engine.is_done(row))
        engine.cancel(stream)

    assert engine.tokens(rows[0]) == engine.tokens(rows[1])


def test_image_is_encoded_one_layer_a_turn() -> None:
    path = tiny_models.trained("pixtral_colors")
    prompt = prepared(path, noise(1), TextPart(text="What color is this?"))
    model = SteppedEngine("m", model=path).loaded_model
    caches = model.make_cache()

    layers = model.view(mx.array(prompt.token_ids), prompt.images).forward(0, len(prompt.token_ids), caches)
    encoding = PrefillPass(caches, states=None, encoder_layers=layers)
    num_turns = 1
    while not encoding.run(TurnLimit(seconds=0.0, finishing_seconds=0.0)):
        num_turns += 1

    num_encoder_layers = json.loads((path / "config.json").read_text())["vision_config"]["num_hidden_layers"]
    assert num_turns == num_encoder_layers + 1 + len(caches) - 1
    assert encoding.encode_seconds > 0


def test_state_amid_a_pass_is_not_stored_when_the_client_leaves(engine: SteppedEngine) -> None:
    engine.configure(SHORT_TURNS)
    stream = engine.submit(STREAM, max_tokens=10_000)
    engine.run(lambda: bool(engine.tokens(stream)))
    left = engine.submit(LONG)
    engine.run(lambda: engine.prompt_amid_pass is not None)
    prompt = engine.prompt_amid_pass
    assert prompt is not None

    engine.cancel(left)
    engine.cancel(stream)
    again = engine.submit(LONG)
    engine.run(lambda: engine.is_done(again))

    stored_by_passes = {0, prompt.prefill.num_computed_tokens} if engine.family == "qwen3" else {0}
    assert engine.num_cached_tokens(again) in stored_by_passes | set(prompt.prefill.checkpoint_positions)
    assert engine.tokens(again)
