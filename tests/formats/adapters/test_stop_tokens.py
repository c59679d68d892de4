"""Stop tokens come from every file, the family and the template."""

from pathlib import Path
from typing import Any

import pytest

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.ir.errors import BrokenModel

from .directories import PLAIN_TEMPLATE, adapter_of, write_model

LATIN = PLAIN_TEMPLATE.replace("<|im_end|>", "")


def _ends(
    directory: Path, *, model_type: str = "unheard_of", template: str = LATIN, **files: Any
) -> set[str]:
    files["config"] = {"model_type": model_type, **files.get("config", {})}
    adapter = adapter_of(write_model(directory, template=template, **files))
    return {adapter.vocabulary.added[token_id].text for token_id in adapter.stop_token_ids}


def _id(qwen: ModelAdapter, token: str) -> int:
    token_id = qwen.vocabulary.id_of(token)
    assert token_id is not None
    return token_id


def test_stop_tokens_come_from_all_files(tmp_path: Path, qwen: ModelAdapter) -> None:
    start, end = _id(qwen, "<|im_start|>"), _id(qwen, "<|im_end|>")
    assert _ends(tmp_path / "1", config={"eos_token_id": end}) == {"<|im_end|>"}
    assert _ends(tmp_path / "2", config={"text_config": {"eos_token_id": [end]}}) == {"<|im_end|>"}
    assert _ends(tmp_path / "3", generation_config={"eos_token_id": [start, end]}) == {
        "<|im_start|>",
        "<|im_end|>",
    }
    assert _ends(tmp_path / "4", tokenizer_config={"eos_token": "<|endoftext|>"}) == {"<|endoftext|>"}
    assert _ends(tmp_path / "5", tokenizer_config={"eos_token": {"content": "<|endoftext|>"}}) == {
        "<|endoftext|>"
    }


def test_template_shows_the_end_of_turn_token(tmp_path: Path) -> None:
    assert _ends(tmp_path, template=PLAIN_TEMPLATE) == {"<|im_end|>"}


def test_template_shows_the_end_of_call_token(tmp_path: Path) -> None:
    """The first non-marker special token after a call starts the result."""
    template = (
        "{%- for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
        "{%- for message in messages %}{{ message.role }}: {{ message.content or '' }}"
        "{%- for call in message.tool_calls or [] %}<tool_call>\n"
        '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson '
        "}}}\n</tool_call><|endoftext|>"
        "{%- endfor %}\n{% endfor %}"
    )
    assert _ends(tmp_path, template=template) == {"<|endoftext|>"}


def test_later_special_token_is_no_stop_token(tmp_path: Path) -> None:
    assert _ends(tmp_path, template=PLAIN_TEMPLATE.replace("<|im_end|>", " (done)<|im_end|>")) == set()


def test_qwen_stops_at_both_of_its_tokens(tmp_path: Path) -> None:
    assert _ends(tmp_path, model_type="qwen3") == {"<|im_end|>", "<|endoftext|>"}


def test_stop_tokens_outside_the_vocabulary_are_dropped(tmp_path: Path) -> None:
    assert (
        _ends(tmp_path, config={"eos_token_id": [-1, 100_000]}, tokenizer_config={"eos_token": "</s>"})
        == set()
    )


@pytest.mark.parametrize("value", ["2", [True], {"id": 2}])
def test_stop_token_that_is_no_id_raises_broken_model(tmp_path: Path, value: Any) -> None:
    with pytest.raises(BrokenModel, match="eos_token_id"):
        _ends(tmp_path, config={"eos_token_id": value})
