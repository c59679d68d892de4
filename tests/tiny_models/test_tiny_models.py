"""Generated models load like real ones; outputs depend on the whole prompt."""

import multiprocessing
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from . import NAMES, model

LONG = " ".join(f"word {number} of {number * 37 % 101}" for number in range(30))
PROMPTS = ("Hello there", "What is it?", "The elor of dunqui", LONG)
ENDLESS = ("endless", "bench5m")


@pytest.fixture(scope="module", params=NAMES)
def loaded(request: pytest.FixtureRequest) -> tuple[str, Any, Any]:
    from mlx_lm import load

    return request.param, *load(str(model(request.param)))


def _prompt(tokenizer: Any, text: str) -> list[int]:
    return tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True)


def _greedy(language_model: Any, tokenizer: Any, prompt: list[int], num_tokens: int) -> list[int]:
    from mlx_lm import stream_generate

    return [step.token for step in stream_generate(language_model, tokenizer, prompt, max_tokens=num_tokens)]


def test_vocabulary_size_equals_the_tokenizers(loaded: tuple[str, Any, Any]) -> None:
    _, language_model, tokenizer = loaded
    assert language_model.args.vocab_size == len(tokenizer.get_vocab())
    assert max(_prompt(tokenizer, PROMPTS[0])) < language_model.args.vocab_size


def test_different_prompts_get_different_outputs(loaded: tuple[str, Any, Any]) -> None:
    _, language_model, tokenizer = loaded
    answers = [_greedy(language_model, tokenizer, _prompt(tokenizer, text), 24) for text in PROMPTS]
    assert all(one != other for one, other in combinations(answers, 2))
    assert all(len(set(answer)) > 3 for answer in answers)


def test_first_token_of_the_prompt_changes_the_output(loaded: tuple[str, Any, Any]) -> None:
    import mlx.core as mx

    _, language_model, tokenizer = loaded
    prompt = _prompt(tokenizer, "The elor of dunqui is not in the park")
    changed = [prompt[0] + 1, *prompt[1:]]
    logits, other = (language_model(mx.array([ids]))[0, -1] for ids in (prompt, changed))
    assert mx.abs(logits - other).max().item() > 1e-3


def test_any_text_round_trips(loaded: tuple[str, Any, Any]) -> None:
    _, _, tokenizer = loaded
    text = 'Grüße,  Welt!\n\t{"a": [1, 2]} 你好 👩‍👩‍👧 \x00'
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_models_generate_ascii_without_end(name: str) -> None:
    import mlx.core as mx
    from mlx_lm import load, stream_generate
    from mlx_lm.sample_utils import make_sampler

    language_model, tokenizer = load(str(model(name)))
    mx.random.seed(3)
    prompt = _prompt(tokenizer, PROMPTS[0])
    steps = stream_generate(language_model, tokenizer, prompt, max_tokens=100, sampler=make_sampler(temp=1.5))
    spoken = [step.token for step in steps]
    assert len(spoken) == 100
    assert len(_greedy(language_model, tokenizer, prompt, 100)) == 100
    assert tokenizer.decode(spoken).isascii()


def test_two_processes_build_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXCTL_TEST_CACHE", str(tmp_path))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.map(model, ["lfm2", "lfm2"])
    assert first == second
    assert [path.name for path in tmp_path.iterdir()] == [first.name]
    assert (first / "model.safetensors").read_bytes() == (model("lfm2") / "model.safetensors").read_bytes()
