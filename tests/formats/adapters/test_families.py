"""The adapter of a model, and detection without a family."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from mlxctl.formats.adapters import create_adapter
from mlxctl.ir import ToolCallStarted, text_message
from mlxctl.ir.errors import BrokenModel
from mlxctl.library import read_model

from .directories import PLAIN_TEMPLATE, QWEN_TEMPLATE, adapter_of, write_model
from .requests import WEATHER, ask
from .tokenizers_in_code import metaspace

# Calls as Qwen3-Coder writes them: between the same tags, but no JSON.
XML_CALLS = QWEN_TEMPLATE.replace(
    """'<tool_call>\\n{"name": "' ~ tool_call.name ~ '", "arguments": '""",
    "'<tool_call><f=' ~ tool_call.name",
)


@pytest.mark.parametrize(
    ("model_type", "family"),
    [
        ("qwen2", "qwen"),
        ("qwen3_moe", "qwen"),
        ("qwen3_5", "qwen"),
        ("olmo3", "olmo"),
        ("unheard_of", "unknown"),
    ],
)
def test_family_follows_the_model_type_and_unknown_ones_work(
    tmp_path: Path, model_type: str, family: str
) -> None:
    adapter = adapter_of(write_model(tmp_path, config={"model_type": model_type}))
    assert adapter.verdict.family == family
    assert [adapter.supports_tools, adapter.supports_thinking, adapter.can_force_tools] == [True] * 3


def test_template_of_an_unknown_call_format_gets_tools_in_the_system_prompt(tmp_path: Path) -> None:
    assert XML_CALLS != QWEN_TEMPLATE
    for model_type in ("qwen3_moe", "unheard_of"):
        adapter = adapter_of(
            write_model(tmp_path / model_type, template=XML_CALLS, config={"model_type": model_type})
        )
        assert (adapter.verdict.tool_delivery, adapter.verdict.tool_parser_id) == ("injected", "hermes_json")


def test_pickled_reader_parses_the_native_format_too(tmp_path: Path) -> None:
    template = PLAIN_TEMPLATE + "{# <｜tool▁calls▁begin｜> #}"
    adapter = adapter_of(write_model(tmp_path, template=template, config={"model_type": "deepseek_v3"}))
    reader = pickle.loads(pickle.dumps(adapter.reader()))
    request = ask(text_message("user", "Hi"), tools=(WEATHER,))
    processor = reader.create_stream_processor(request, adapter.prepare_input(request))
    native = (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Rome"}<｜tool▁call▁end｜>'
    )
    events = processor.feed(adapter.vocabulary.encode(native))
    assert adapter.verdict.tool_parser_id == "hermes_json"
    assert [event.name for event in events if isinstance(event, ToolCallStarted)] == ["get_weather"]


def test_template_with_tools_but_no_calls_gets_hermes(tmp_path: Path) -> None:
    template = (
        "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}Answer in <tool_call> tags.\n" + PLAIN_TEMPLATE
    )
    adapter = adapter_of(write_model(tmp_path, template=template, config={"model_type": "unheard_of"}))
    assert adapter.can_force_tools


def test_template_that_only_strips_thoughts_names_their_format(tmp_path: Path) -> None:
    template = PLAIN_TEMPLATE + "{# text.split('<channel|>'), part.split('<|channel>') #}"
    adapter = adapter_of(write_model(tmp_path, template=template, config={"model_type": "gemma4"}))
    assert adapter.verdict.thinking_parser_id == "gemma4_channel"


def test_rendered_thinking_format_precedes_the_one_that_is_stripped(tmp_path: Path) -> None:
    template = (
        PLAIN_TEMPLATE
        + "{# text.split('<think>')[0], text.split('</think>')[1] #}"
        + "{% if add_generation_prompt %}<|channel>thought\n<channel|>{% endif %}"
    )
    adapter = adapter_of(write_model(tmp_path, template=template, config={"model_type": "gemma4"}))
    assert adapter.verdict.thinking_parser_id == "gemma4_channel"


def test_model_without_think_tags_does_not_support_thinking(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, template=PLAIN_TEMPLATE, config={"model_type": "unheard_of"}))
    assert not adapter.supports_thinking


def test_vocabulary_size_is_that_of_the_weights(tmp_path: Path) -> None:
    assert adapter_of(write_model(tmp_path / "1", config={"vocab_size": 999})).vocabulary_size == 999
    nested = {"vocab_size": None, "text_config": {"vocab_size": 1000}}
    assert adapter_of(write_model(tmp_path / "2", config=nested)).vocabulary_size == 1000
    with pytest.raises(BrokenModel, match="vocab_size"):
        adapter_of(write_model(tmp_path / "3", config={"vocab_size": "many"}))


def test_invalid_tokenizer_raises_broken_model(tmp_path: Path) -> None:
    directory = write_model(tmp_path)
    (directory / "tokenizer.json").write_text('{"model": 5}')
    with pytest.raises(BrokenModel, match=r"tokenizer\.json"):
        create_adapter(read_model(directory), name="small")


def test_tokenizer_truncation_and_padding_are_disabled(tmp_path: Path) -> None:
    tokenizer: Tokenizer = metaspace()
    tokenizer.enable_truncation(max_length=2)
    tokenizer.enable_padding(length=50)
    adapter = adapter_of(write_model(tmp_path, tokenizer=tokenizer))
    assert len(adapter.vocabulary.encode("the the the the")) == 4


def test_neither_mlx_nor_transformers_is_imported() -> None:
    code = (
        "import sys, mlxctl.formats.adapters, mlxctl.library, mlxctl.formats.parsers\n"
        "sys.exit(bool({'mlx', 'mlx_lm', 'transformers', 'numpy'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
