"""Models whose files describe how they write: `response_template` of tokenizer_config.json."""

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from mlxctl.formats.adapters import ModelAdapter, create_adapter
from mlxctl.ir import ModelCapabilities, collect, text_message
from mlxctl.library import read_model

from .directories import QWEN_TEMPLATE, adapter_of, write_model
from .requests import WEATHER, ask

# No format of ours writes calls like this.
STRANGE = """{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}
{%- for message in messages %}~{{ message.role }}~{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}~use {{ call.function.name }}~
{%- for key, value in call.function.arguments.items() %}{{ key }} := {{ value }}
{% endfor %}~done~{% endfor %}~end~{% endfor %}{% if add_generation_prompt %}~assistant~{% endif %}"""
TEMPLATE: dict[str, Any] = {
    "start_anchor": "~assistant~",
    "fields": {
        "thinking": {"open": "~muse~", "close": "~/muse~"},
        "tool_calls": {
            "open_pattern": r"~use (?P<name>\w+)~",
            "close": "~done~",
            "repeats": True,
            "content": "kv-lines",
            "content_args": {"kv_sep": ":="},
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close": "~end~"},
    },
}


def described(directory: Path, template: Any = TEMPLATE, *, chat_template: str = STRANGE) -> ModelAdapter:
    return adapter_of(
        write_model(directory, template=chat_template, tokenizer_config={"response_template": template})
    )


def answer(adapter: ModelAdapter, text: str) -> Any:
    request = ask(text_message("user", "Weather?"), tools=(WEATHER,))
    reader = pickle.loads(pickle.dumps(adapter.reader()))
    processor = reader.create_stream_processor(request, adapter.prepare_input(request))
    events = [*processor.feed(adapter.vocabulary.encode(text)), *processor.finish("stop")]
    return collect(events).message


def test_template_that_no_format_recognizes_is_read_as_the_model_says(tmp_path: Path) -> None:
    adapter = described(tmp_path)
    message = answer(adapter, "~muse~hm~/muse~I look.~use get_weather~city := Bern\n~done~~end~")
    assert (adapter.verdict.tool_parser_id, adapter.verdict.thinking_parser_id) == ("response_template",) * 2
    assert adapter.verdict.tool_delivery == "template"
    assert (message.thinking, message.text) == ("hm", "I look.")
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [
        (WEATHER.name, {"city": "Bern"})
    ]


def test_recognized_format_takes_precedence(tmp_path: Path) -> None:
    adapter = described(tmp_path, chat_template=QWEN_TEMPLATE)
    assert (adapter.verdict.tool_parser_id, adapter.verdict.thinking_parser_id) == (
        "hermes_json",
        "think_tag",
    )


def test_probed_template_takes_precedence_over_a_recognized_format(tmp_path: Path) -> None:
    directory = write_model(tmp_path, tokenizer_config={"response_template": TEMPLATE})
    known = ModelCapabilities(tools=True, tool_parser_id="response_template", tool_delivery="template")
    adapter = create_adapter(read_model(directory), name="small", capabilities=known)
    assert adapter.verdict.tool_parser_id == "response_template"


def test_unusable_template_is_named_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fields = {"tool_calls": {"open_pattern": "~use~(a|a)*(?<=a)", "close": "~done~"}}
    with caplog.at_level(logging.WARNING):
        adapter = described(tmp_path, {"fields": fields})
    assert adapter.verdict.tool_parser_id != "response_template"
    (line,) = (record.getMessage() for record in caplog.records if "response_template" in record.getMessage())
    assert "is not used" in line
    assert "not supported" in line
