"""Training data and files of the long-context tool caller.

Its abilities are measured with real clients (`python -m tests.clients`): training takes minutes.
"""

import json
from pathlib import Path

import pytest

from tools.demo_model.conversation import ToolCall, assistant_calls, render, tool_result, user

from . import tool_caller
from .tool_caller import CONTEXT_LENGTH, WINDOW, ConversationGenerator, make


def test_training_text_equals_the_rendered_template() -> None:
    generator = ConversationGenerator(seed=5)
    texts = ["".join(piece for piece, _ in generator.turn()) for _ in range(60)]
    text = next(text for text in texts if "<tool_response>" in text)
    question = text.split("<|im_start|>user\n")[-2].split("<|im_end|>")[0]
    call = json.loads(text.split("<tool_call>\n")[-1].split("\n</tool_call>")[0])
    result = text.split("<tool_response>\n")[-1].split("\n</tool_response>")[0]
    calls = assistant_calls([ToolCall(name=call["name"], arguments=call["arguments"])])
    template = render([user(question), calls, tool_result(result)])
    generated = text[text.rindex("<|im_start|>user\n" + question) : text.rindex("<|im_start|>assistant\n")]
    without_thoughts = generated.replace("<think>\n\n</think>\n\n", "")
    assert without_thoughts + "<|im_start|>assistant\n" == template


def test_same_seed_gives_the_same_training_data() -> None:
    first, second = ConversationGenerator(seed=1), ConversationGenerator(seed=1)
    assert [first.turn() for _ in range(20)] == [second.turn() for _ in range(20)]


def test_one_step_trains_a_model_with_windows_in_all_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlx_lm import load
    from mlx_lm.models.cache import make_prompt_cache

    monkeypatch.setattr(tool_caller, "_NUM_TOKENS_PER_STEP", 128)
    make(tmp_path, num_steps=1)
    model, tokenizer = load(str(tmp_path))
    assert {cache.max_size for cache in make_prompt_cache(model)} == {WINDOW}
    assert json.loads((tmp_path / "config.json").read_text())["max_position_embeddings"] == CONTEXT_LENGTH
    assert tokenizer.decode(tokenizer.encode("echo hello")) == "echo hello"
