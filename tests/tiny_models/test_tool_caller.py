"""The model that calls tools practices on what its template will show it, and comes out as a model that
loads.

How well it calls is seen with real clients (`python -m tests.clients`): training it takes minutes.
"""

import json
from pathlib import Path

from tools.demo_model.conversation import ToolCall, assistant_calls, render, tool_result, user

from .tool_caller import CONTEXT_LENGTH, WINDOW, Practice, make


def test_what_is_practiced_is_what_the_template_writes() -> None:
    practice = Practice(seed=5)
    texts = ["".join(piece for piece, _ in practice.turn()) for _ in range(60)]
    text = next(text for text in texts if "<tool_response>" in text)
    question = text.split("<|im_start|>user\n")[-2].split("<|im_end|>")[0]
    call = json.loads(text.split("<tool_call>\n")[-1].split("\n</tool_call>")[0])
    result = text.split("<tool_response>\n")[-1].split("\n</tool_response>")[0]
    calls = assistant_calls([ToolCall(name=call["name"], arguments=call["arguments"])])
    template = render([user(question), calls, tool_result(result)])
    practiced = text[text.rindex("<|im_start|>user\n" + question) : text.rindex("<|im_start|>assistant\n")]
    without_thoughts = practiced.replace("<think>\n\n</think>\n\n", "")
    assert without_thoughts + "<|im_start|>assistant\n" == template


def test_the_same_seed_practices_the_same() -> None:
    first, second = Practice(seed=1), Practice(seed=1)
    assert [first.turn() for _ in range(20)] == [second.turn() for _ in range(20)]


def test_one_step_makes_a_model_with_a_window_in_every_layer(tmp_path: Path) -> None:
    from mlx_lm import load
    from mlx_lm.models.cache import make_prompt_cache

    make(tmp_path, num_steps=1)
    model, tokenizer = load(str(tmp_path))
    assert {cache.max_size for cache in make_prompt_cache(model)} == {WINDOW}
    assert json.loads((tmp_path / "config.json").read_text())["max_position_embeddings"] == CONTEXT_LENGTH
    assert tokenizer.decode(tokenizer.encode("echo hello")) == "echo hello"
