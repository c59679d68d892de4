"""MTP heads of Qwen3.5 checkpoints draft; the answers do not change."""

import asyncio
import shutil
from array import array
from collections import abc
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.utils import load_model

from mlxctl.engine import EngineClient
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation import draft_steps
from mlxctl.engine.speculation.hidden_states import MAX_STATES, HiddenStates
from mlxctl.engine.speculation.mtp_drafter import MtpDrafter
from mlxctl.engine.speculation.mtp_head import StateRecorder, load_mtp_head
from mlxctl.engine.speculation.policy import gate_store
from mlxctl.engine.speculation.policy.drafter import NO_DRAFT, Draft
from mlxctl.ir import CacheOptions, ModelSpec, SamplingParams, TextGenerationTask
from mlxctl.ir.lora import LoraChoice, stack_digest
from mlxctl.ir.model_spec import DraftModelSpec, TextModelOptions
from mlxctl.library.lora_files import read_lora
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import GREEDY, Output, finish, running_engine, submit
from tests.engine.speculation.test_speculation import OpenGate, assert_same
from tests.tiny_models import adapters
from tests.tiny_models.mtp_heads import separate_head, with_mtp_head

SETTINGS = EngineSettings(max_rows=8, speculation="mtp", prefill_pass_max_tokens=32)
SEEDED = SamplingParams(temperature=0.8, seed=11)
NUM_TOKENS = 24


class RecordingDrafter(MtpDrafter):
    """Records the rows' tokens and the states that the head reads."""

    seen: ClassVar[list[tuple[list[int], int, "np.ndarray[Any, Any]"]]] = []
    drafts: ClassVar[dict[tuple[int, ...], list[int]]] = {}

    def _sample(
        self,
        rows: abc.Sequence[Sequence],
        tokens: abc.Sequence[list[int]],
        states: abc.Sequence[mx.array],
        num_tokens: int,
    ) -> list[list[int]]:
        for row, own_tokens, own_states in zip(rows, tokens, states, strict=True):
            known = [*row.prompt_token_ids, *row.output_token_ids[row.num_resumed_tokens :]]
            self.seen.append((known, len(known) - len(own_tokens), np.array(own_states[0])))
        drafts = super()._sample(rows, tokens, states, num_tokens)
        for row, draft in zip(rows, drafts, strict=True):
            self.drafts[*row.prompt_token_ids, *row.output_token_ids[row.num_resumed_tokens :]] = draft
        return drafts


class SparseDrafter(RecordingDrafter):
    """Drafts at every third call only."""

    num_calls: ClassVar[int] = 0

    def draft(self, rows: abc.Sequence[Sequence], max_tokens: abc.Sequence[int]) -> list[Draft]:
        type(self).num_calls += 1
        return super().draft(rows, max_tokens) if self.num_calls % 3 == 0 else [NO_DRAFT] * len(rows)


@pytest.fixture(autouse=True)
def open_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_store, "SpeculationGate", OpenGate)
    RecordingDrafter.seen = []
    RecordingDrafter.drafts = {}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_mtp_head(tiny_models.model("qwen3_5_seer"), tmp_path_factory.mktemp("mtp") / "model")


def spec_of(path: Path) -> ModelSpec:
    task = TextGenerationTask(options=TextModelOptions(mtp_head=True))
    return ModelSpec(name="m", path=path, weights_bytes=1, task=task)


async def run(
    client: EngineClient,
    prompt: abc.Sequence[int],
    sampling: SamplingParams,
    *,
    speculation: bool = True,
    cache: CacheOptions = CacheOptions(),  # noqa: B008 -- frozen
    lora: tuple[LoraChoice, ...] = (),
) -> Output:
    sampling = SamplingParams(temperature=sampling.temperature, seed=sampling.seed, speculation=speculation)
    stream = submit(client, "m", prompt, sampling=sampling, max_tokens=NUM_TOKENS, cache=cache, adapters=lora)
    return await finish(stream)


def prompts(num: int) -> list[list[int]]:
    random = Random(5)
    return [[random.randrange(10, 500) for _ in range(random.randint(2, 90))] for _ in range(num)]


def test_mtp_head_changes_no_token_alone_and_in_a_batch(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_steps, "MtpDrafter", RecordingDrafter)
    jobs = [(prompt, SEEDED if index % 2 else GREEDY) for index, prompt in enumerate(prompts(3))]

    async def check() -> None:
        async with running_engine(models=[spec_of(checkpoint)], settings=SETTINGS) as client:
            plain = [await run(client, *job, speculation=False) for job in jobs]
            alone = [await run(client, *job) for job in jobs]
            drafts = dict(RecordingDrafter.drafts)
            RecordingDrafter.drafts.clear()
            together = await asyncio.gather(*(run(client, *job) for job in jobs))
        assert_similar(RecordingDrafter.drafts, drafts)
        for each, one, beside in zip(plain, alone, together, strict=True):
            assert_same(one, each)
            assert_same(beside, each)
            assert one.num_accepted > NUM_TOKENS // 4
        assert any(one.num_rejected for one in alone)

    asyncio.run(check())
    assert_states_are_the_models(checkpoint)


def test_states_of_steps_without_drafts_are_read_later(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_steps, "MtpDrafter", SparseDrafter)

    async def check() -> None:
        async with running_engine(models=[spec_of(checkpoint)], settings=SETTINGS) as client:
            drafted = await asyncio.gather(*(run(client, prompt, GREEDY) for prompt in prompts(3)))
        assert all(each.num_accepted for each in drafted)

    asyncio.run(check())
    assert any(1 < len(states) < 10 for _, _, states in RecordingDrafter.seen)
    assert_states_are_the_models(checkpoint)


def test_only_the_last_states_of_a_row_are_held() -> None:
    recorder = StateRecorder()
    states = HiddenStates(recorder)
    row = Sequence(
        sequence_id=1,
        model="m",
        prompt_token_ids=array("I", range(10)),
        sampling=SamplingParams(),
        stop_token_ids=frozenset(),
        max_tokens=1000,
    )
    row.prefill.finish_pass(9)
    for step in range(MAX_STATES + 50):
        row.num_sampled_tokens += 1
        recorder.record(mx.full((1, 1, 4), step))
        states.add(states.take_pass(), [row], [1])
    taken = states.take(row)
    assert taken is not None
    start, held = taken
    assert (start, held.shape[1]) == (9 + 50, MAX_STATES)
    assert held[0, 0, 0].item() == 50
    assert states.take(row) is None


def assert_similar(drafts: dict[tuple[int, ...], list[int]], alone: dict[tuple[int, ...], list[int]]) -> None:
    """Check that drafts of a batch are those of each row alone.

    Almost equal logits may give other tokens, because the head reads other numbers of tokens at once.
    """
    common = drafts.keys() & alone.keys()
    same = [tokens for tokens in common if drafts[tokens][0] == alone[tokens][0]]
    assert len(same) > 0.9 * len(common) > 5


def assert_states_are_the_models(checkpoint: Path) -> None:
    model, _ = load_model(checkpoint)
    for known, start, states in RecordingDrafter.seen:
        all_states = np.array(model.language_model.model(mx.array([known]))[0])
        np.testing.assert_allclose(states, all_states[start - 1 : len(known) - 1], atol=1e-3)
    assert RecordingDrafter.seen


def test_vendors_checkpoint_drafts_like_the_converted_one(checkpoint: Path, tmp_path: Path) -> None:
    raw = with_mtp_head(tiny_models.model("qwen3_5_seer"), tmp_path / "raw", is_raw=True)

    async def drafted(path: Path) -> tuple[list[int], int, int]:
        async with running_engine(models=[spec_of(path)], settings=SETTINGS) as client:
            output = await run(client, prompts(1)[0], SEEDED)
        return output.token_ids, output.num_accepted, output.num_rejected

    assert asyncio.run(drafted(raw)) == asyncio.run(drafted(checkpoint))


def test_head_of_another_directory_drafts_like_the_models_own(checkpoint: Path, tmp_path: Path) -> None:
    head = separate_head(checkpoint, tmp_path / "head")
    draft = DraftModelSpec(path=head, weights_bytes=1, is_mtp_head=True)
    # Most conversions have no head.
    model = rewrite(Path(shutil.copytree(checkpoint, tmp_path / "model")), without_head)
    task = TextGenerationTask(options=TextModelOptions(draft=draft))
    separate = ModelSpec(name="m", path=model, weights_bytes=1, task=task)

    async def drafted(spec: ModelSpec) -> tuple[list[int], int, int]:
        async with running_engine(models=[spec], settings=SETTINGS) as client:
            output = await run(client, prompts(1)[0], SEEDED)
        return output.token_ids, output.num_accepted, output.num_rejected

    tokens, accepted, rejected = asyncio.run(drafted(separate))
    assert (tokens, accepted, rejected) == asyncio.run(drafted(spec_of(checkpoint)))
    assert accepted


def test_vendors_file_beside_converted_weights_is_read_as_raw(checkpoint: Path, tmp_path: Path) -> None:
    raw = with_mtp_head(tiny_models.model("qwen3_5_seer"), tmp_path / "raw", is_raw=True)
    head = {
        name: array
        for name, array in mx.load(str(raw / "model.safetensors")).items()
        if name.startswith("mtp.")
    }
    model = rewrite(Path(shutil.copytree(checkpoint, tmp_path / "model")), without_head)
    mx.save_safetensors(str(model / "mtp.safetensors"), head, metadata={"format": "pt"})

    expected, found = loaded_head(checkpoint), loaded_head(model)
    separate = loaded_head(model, separate_head(raw, tmp_path / "head", is_raw=True))

    for other in (found, separate):
        assert mx.array_equal(expected.norm.weight, other.norm.weight)
        norm = other.layers[0].input_layernorm.weight
        assert mx.array_equal(expected.layers[0].input_layernorm.weight, norm)


def without_head(weights: dict[str, mx.array]) -> None:
    for name in [name for name in weights if name.startswith("mtp.")]:
        del weights[name]


def test_rows_with_adapters_are_drafted_for_in_one_batch(checkpoint: Path, tmp_path: Path) -> None:
    adapter = read_lora(
        adapters.random_adapter(checkpoint, tmp_path / "one", seed=1, size=0.1), name="one", base=checkpoint
    )
    choice = (LoraChoice(name="one"),)
    digest = stack_digest([(adapter.digest, 1.0)])

    async def check() -> None:
        async with running_engine(models=[spec_of(checkpoint)], settings=SETTINGS) as client:
            assert await client.mount_lora("m", adapter) == ""
            first, second = prompts(2)
            adapted = CacheOptions(adapters_digest=digest)
            plain = [
                await run(client, first, GREEDY, speculation=False),
                await run(client, second, GREEDY, speculation=False, cache=adapted, lora=choice),
            ]
            together = await asyncio.gather(
                run(client, first, GREEDY), run(client, second, GREEDY, cache=adapted, lora=choice)
            )
        assert [each.token_ids for each in together] == [each.token_ids for each in plain]
        assert together[0].num_accepted

    asyncio.run(check())


def loaded_head(path: Path, head: Path | None = None) -> Any:
    model, _ = load_model(path, lazy=True)
    pieces = load_mtp_head(model, head or path)
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value


def rewrite(directory: Path, change: Any) -> Path:
    file = directory / "model.safetensors"
    weights = dict(mx.load(str(file)))
    change(weights)
    mx.eval(weights)
    mx.save_safetensors(str(file), weights, metadata={"format": "mlx"})
    return directory


def test_quantized_layers_of_a_head_are_loaded(tmp_path: Path) -> None:
    def quantize(weights: dict[str, mx.array]) -> None:
        packed = mx.quantize(weights["mtp.fc.weight"], group_size=32, bits=8)
        for kind, part in zip(("weight", "scales", "biases"), packed, strict=True):
            weights[f"mtp.fc.{kind}"] = part

    path = with_mtp_head(tiny_models.model("qwen3_5_seer"), tmp_path / "model")
    head = loaded_head(rewrite(path, quantize))
    assert isinstance(head.fc, nn.QuantizedLinear)
    assert (head.fc.bits, head.fc.group_size) == (8, 32)
    assert isinstance(head.layers[0].self_attn.q_proj, nn.Linear)


@pytest.mark.parametrize("is_fused", [True, False])
def test_experts_of_a_head_are_loaded(tmp_path: Path, is_fused: bool) -> None:
    path = with_mtp_head(tiny_models.model("qwen3_5_moe_seer"), tmp_path / "model")
    before = loaded_head(path).layers[0].mlp.switch_mlp

    def unstack(weights: dict[str, mx.array]) -> None:
        block = "mtp.layers.0.mlp."
        parts = {
            kind: weights.pop(f"{block}switch_mlp.{kind}_proj.weight") for kind in ("gate", "up", "down")
        }
        if is_fused:
            weights[f"{block}experts.gate_up_proj"] = mx.concatenate([parts["gate"], parts["up"]], axis=1)
            weights[f"{block}experts.down_proj"] = parts["down"]
            return
        for kind, experts in parts.items():
            for number, expert in enumerate(experts):
                weights[f"{block}experts.{number}.{kind}_proj.weight"] = expert

    after = loaded_head(rewrite(path, unstack)).layers[0].mlp.switch_mlp
    for kind in ("gate_proj", "up_proj", "down_proj"):
        assert mx.array_equal(before[kind].weight, after[kind].weight)


def test_unknown_tensor_of_a_head_is_an_error(tmp_path: Path) -> None:
    def add(weights: dict[str, mx.array]) -> None:
        weights["mtp.gate.weight"] = mx.zeros((2,))

    path = with_mtp_head(tiny_models.model("qwen3_5_seer"), tmp_path / "model")
    with pytest.raises(ValueError, match=r"gate\.weight"):
        loaded_head(rewrite(path, add))
