"""Chat templates: supported functions, errors, limits and conversions."""

import json
import tracemalloc
from pathlib import Path

import pytest

from mlxctl.ir import Message, TextPart, ToolCallPart, ToolResultPart, ToolSpec, text_message
from mlxctl.ir.errors import BrokenModel, InvalidRequest

from .directories import PLAIN_TEMPLATE, QWEN_TEMPLATE, adapter_of, write_model
from .requests import WEATHER, ask, prompt_of

USER = text_message("user", "Hi")
# Gemma 2's rules: no system role, no tools, strict turns.
STRICT = """{{ bos_token }}
{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for message in messages %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Roles must alternate') }}{% endif %}
{{- '[' ~ message.role ~ ']' ~ message.content }}
{%- endfor %}"""


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}", "Hi"),
        ("{% for n in range(9) %}{% if n == 2 %}{% break %}{% endif %}{{ n }}{% endfor %}", "01"),
        ("{{ {'b': '<é>', 'a': 1} | tojson }}", '{"b": "<é>", "a": 1}'),
        ("{{ {'b': 1} | tojson(indent=2) }}", '{\n  "b": 1\n}'),
        ("{% set ns = namespace(n=1) %}{% set ns.n = 2 %}{{ ns.n }}", "2"),
        ("{{ strftime_now('%%') }}", "%"),
        ("{{ bos_token }}{{ eos_token }}{{ sep_token }}", "BE"),
        ("    {% if true %}\nx\n    {% endif %}\n", "x\n"),
        ("{{ answer }}", "42"),
        ("{{ tools is none }}", "True"),
    ],
)
def test_templates_get_the_documented_functions(tmp_path: Path, template: str, rendered: str) -> None:
    special = {"bos_token": "B", "eos_token": {"content": "E", "lstrip": False}}
    template += "|{{ messages[0].content }}"
    adapter = adapter_of(write_model(tmp_path, template=template, tokenizer_config=special))
    assert prompt_of(adapter, ask(USER, template_kwargs={"answer": 42})) == f"{rendered}|Hi"


def test_functions_as_json_text_and_the_day_are_template_variables(tmp_path: Path) -> None:
    template = """{{ 'Functions: ' + functions + ' Today is ' + datetime }}
{%- for message in messages %}|{{ message.content }}
{%- for call in message.tool_calls %} functools[{"name": "{{ call.function.name }}", "arguments":
{{- ' ' ~ call.function.arguments | tojson }}}]{% endfor %}{% endfor %}"""
    adapter = adapter_of(write_model(tmp_path, template=template, config={"model_type": "llama"}))
    prompt = prompt_of(adapter, ask(USER, tools=(WEATHER,), template_kwargs={"datetime": "Monday"}))
    functions, _, rest = prompt.removeprefix("Functions: ").partition(" Today is ")
    assert [function["name"] for function in json.loads(functions)] == [WEATHER.name]
    assert rest == "Monday|Hi"
    assert adapter.verdict.tool_parser_id == "functools"
    assert prompt_of(adapter, ask(USER)).startswith("Functions: [] Today is 2")


def test_template_rejection_is_quoted(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, template="{{ raise_exception('Only in rhyme, please.') }}"))
    with pytest.raises(InvalidRequest, match=r"Only in rhyme, please\."):
        adapter.prepare_input(ask(USER))


@pytest.mark.parametrize(
    "template", ["{{ messages[0].content + 1 }}", "{{ 1 / 0 }}", "{{ messages.append(1) }}"]
)
def test_failing_template_raises_invalid_request(tmp_path: Path, template: str) -> None:
    adapter = adapter_of(write_model(tmp_path, template=template))
    with pytest.raises(InvalidRequest, match="cannot render"):
        adapter.prepare_input(ask(USER))


@pytest.mark.parametrize("template", ["{% if %}", "{{ x", "{% for m in messages %}", "{% nonsense %}"])
def test_broken_template_raises_on_load(tmp_path: Path, template: str) -> None:
    with pytest.raises(BrokenModel, match=r"chat template of .* is broken in line 1: [^\n]+$"):
        adapter_of(write_model(tmp_path, template=template))


@pytest.mark.parametrize("escape", ["{{ ''.__class__.__mro__ }}", "{{ messages.__init__.__globals__ }}"])
def test_template_cannot_leave_its_sandbox(tmp_path: Path, escape: str) -> None:
    adapter = adapter_of(write_model(tmp_path, template=escape))
    with pytest.raises(InvalidRequest, match="unsafe"):
        adapter.prepare_input(ask(USER))


def test_endless_prompt_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlxctl.formats.adapters.templates.environment.MAX_CHARS", 1000)
    adapter = adapter_of(write_model(tmp_path, template="{% for n in range(10000) %}more{{ n }}{% endfor %}"))
    with pytest.raises(InvalidRequest, match="longer than 1000 characters"):
        adapter.prepare_input(ask(USER))


ENDLESS = {
    "loops in loops": "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "macros that call twice": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"
    ),
    "a loop that calls itself": (
        "{% for a in range(9) recursive %}{% if loop.depth < 40 %}{{ loop(range(9)) }}{% endif %}{% endfor %}"
    ),
    "text that doubles": (
        "{% set n = namespace(t='xx') %}{% for a in range(99) %}{% set n.t = n.t ~ n.t %}{% endfor %}{{ n.t "
        "}}"
    ),
    "text that is added": (
        "{% set n = namespace(t='xx') %}{% for a in range(99) %}{% set n.t = n.t + n.t %}{% endfor %}{{ n.t "
        "}}"
    ),
    "text in a block": (
        "{% set n = namespace(t='xx') %}{% for a in range(99) %}{% set n.t %}{{ n.t }}{{ n.t }}{% endset "
        "%}{% endfor %}{{ n.t }}"
    ),
    "text from a macro": (
        "{% macro d(t) %}{{ t }}{{ t }}{% endmacro %}"
        "{% set n = namespace(t='xx') %}{% for a in range(99) %}{% set n.t = d(n.t) %}{% endfor %}{{ n.t }}"
    ),
    "one huge text": "{{ 'x' * 9999999999 }}",
    "one huge number": "{{ 9 ** 9999999 }}",
    "a number that is squared": (
        "{% set n = namespace(t=9) %}{% for a in range(99) %}{% set n.t = n.t * n.t %}{% endfor %}{{ n.t }}"
    ),
    "a wide filter": "{{ 'x' | center(10**9) }}",
    "a wide filter of many": "{{ messages | map('string') | map('center', 10**9) | join }}",
    "a wide indent": "{{ 'x\n' | indent(width=10**9) }}",
    "an indent of many lines": "{{ ('x\n' * 90000) | indent(9999) }}",
    "an indent by a text": "{{ ('x\n' * 9000) | indent('x' * 9000) }}",
    "a wide wrap": "{{ ('xy ' * 90000) | wordwrap(1, wrapstring='z' * 9000) }}",
    "a wide method": "{{ 'x'.ljust(10**9) }}",
    "wide tabs": "{{ ('\t' * 90000).expandtabs(9999) }}",
    "a wide format": "{{ '%1000000000d' % 1 }}",
    "a format of a width elsewhere": "{{ '%*d' % (10**9, 1) }}",
    "a wide format filter": "{{ '%.1000000000f' | format(1) }}",
    "wide braces": "{{ '{:>1000000000}'.format(1) }}",
    "braces in braces": "{{ '{:>{w}}'.format(1, w='1000000000') }}",
    "a long replacement": "{{ ('x' * 90000).replace('x', 'y' * 90000) }}",
    "a long replacement by a filter": "{{ ('x' * 90000) | replace('x', 'y' * 90000) }}",
    "a long translation": "{{ ('x' * 90000).translate({120: 'y' * 90000}) }}",
    "a long join": "{{ ('x' * 90000).join(range(90000) | map('string') | list) }}",
    "a long join by a filter": "{{ range(90000) | list | join('x' * 90000) }}",
    "a deep round": "{{ 1.5 | round(10**9, 'floor') }}",
    "a deep JSON indent": "{{ messages | tojson(indent=10**9) }}",
    "many slices": "{{ 'x' | slice(10**9) | list }}",
    "lists in lists": (
        "{% set n = namespace(t=['x']) %}{% for a in range(99) %}{% set n.t = [n.t, n.t] %}{% endfor %}{{ "
        "n.t }}"
    ),
    "lists in lists as JSON": (
        "{% set n = namespace(t=['x']) %}{% for a in range(99) %}{% set n.t = [n.t, n.t] %}{% endfor %}{{ "
        "n.t | tojson }}"
    ),
    "lists in lists beside a text": (
        "{% set n = namespace(t=['x']) %}{% for a in range(99) %}{% set n.t = [n.t, n.t] %}{% endfor %}{{ "
        "'x' ~ n.t }}"
    ),
    "a sorted text": "{{ ('x' * 90000) | sort | length }}",
    "many texts in capitals": "{{ ([1] * 90000) | map('string') | map('upper') | list | length }}",
    "a long sum of texts": "{% set t = 'x' * 900000 %}{{ " + "~".join(["t"] * 2000) + " }}",
}


@pytest.mark.parametrize("template", ENDLESS.values(), ids=ENDLESS)
def test_endless_template_raises_one_clear_error(
    tmp_path: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlxctl.formats.adapters.templates.environment.MAX_CHARS", 200_000)
    monkeypatch.setattr("mlxctl.formats.adapters.templates.environment.MAX_STEPS", 20_000)
    adapter = adapter_of(write_model(tmp_path, template=template))
    pattern = (
        r"the chat template of .* cannot render this conversation: "
        r"it (did not finish|builds|computes|uses|formats|translates|nests)"
    )
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match=pattern):
            adapter.prepare_input(ask(USER))
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_probes_of_a_slow_template_share_one_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlxctl.formats.adapters.templates.probe_time.PROBE_SECONDS", 0.05)
    slow = "{% for a in range(90000) %}{% set b = a + 1 %}{% endfor %}{{ messages[0].content }}"
    with pytest.raises(BrokenModel, match=r"chat template of .* its probes take more than 0\.05 s of CPU"):
        adapter_of(write_model(tmp_path, template=slow))


def test_common_text_operations_stay_within_the_limits(tmp_path: Path) -> None:
    template = (
        "{{ '%05.1f|' % 2.25 }}{{ '{:>4}|{{}}'.format(7) }}{{ 'a' | center(3) }}|{{ messages[0].content | "
        "indent(2) }}|"
        "{{ ['a', 1] | join(', ') }}|{{ {'k': [1]} | tojson(indent=2) }}|"
        "{{ 'ab'.replace('b', 'c') ~ 1 ~ none }}|{{ 2.25 | round(1, 'floor') }}"
    )
    rendered = prompt_of(adapter_of(write_model(tmp_path, template=template)), ask(USER))
    assert rendered == '002.2|   7|{} a |Hi|a, 1|{\n  "k": [\n    1\n  ]\n}|ac1None|2.2'


def test_long_conversation_stays_within_the_limits(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, config={"max_position_embeddings": 10**7}))
    messages = [
        text_message("user" if number % 2 == 0 else "assistant", f"word {number}") for number in range(2_001)
    ]
    assert "word 2000" in prompt_of(adapter, ask(*messages))


def test_model_without_template_cannot_chat(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, template=None))
    assert [adapter.supports_tools, adapter.supports_thinking, adapter.can_force_tools] == [False] * 3
    with pytest.raises(InvalidRequest, match="no chat template"):
        adapter.prepare_input(ask(USER))


def test_leading_system_messages_become_one(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path))
    prompt = prompt_of(adapter, ask(text_message("system", "One."), text_message("system", "Two."), USER))
    assert prompt.startswith("<|im_start|>system\nOne.\n\nTwo.<|im_end|>\n<|im_start|>user\nHi")


def test_later_system_message_stays_if_supported(tmp_path: Path) -> None:
    prompt = prompt_of(adapter_of(write_model(tmp_path)), ask(USER, text_message("system", "Now rhyme.")))
    assert "user\nHi<|im_end|>\n<|im_start|>system\nNow rhyme.<|im_end|>" in prompt


def test_strict_template_gets_a_converted_conversation(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, template=STRICT))
    call = ToolCallPart(id="c", name="f", arguments='{"a": "ü"}')
    request = ask(
        text_message("system", "S"),
        USER,
        text_message("system", "later"),
        Message(role="assistant", parts=(TextPart(text="I look."), call)),
        Message(role="tool", parts=(ToolResultPart(call_id="c", content=(TextPart(text="R"),)),)),
        text_message("user", "And?"),
    )
    assert prompt_of(adapter, request) == (
        "[user]S\n\nHi\n\n<system-reminder>\nlater\n</system-reminder>"
        '[assistant]I look.\n<tool_call>\n{"name": "f", "arguments": {"a": "ü"}}\n</tool_call>'
        "[user]<tool_response>\nR\n</tool_response>\n\nAnd?"
    )


def test_template_that_concatenates_arguments_gets_text(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{{ m.role ~ ':' ~ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.name + c.function.arguments }}{% endfor %}{% endfor %}"
    )
    call = ToolCallPart(id="c", name="f", arguments='{"a":1}')
    prompt = prompt_of(
        adapter_of(write_model(tmp_path, template=template)),
        ask(USER, Message(role="assistant", parts=(call,))),
    )
    assert prompt == 'user:Hiassistant:f{"a": 1}'


def test_template_that_prints_arguments_gets_text(tmp_path: Path) -> None:
    template = """{%- for message in messages %}|{{ message.content }}
{%- for call in message.tool_calls %}{"name": "{{ call.function.name }}", "arguments":
{{- ' ' }}{{ call.function.arguments }}}{% endfor %}{% endfor %}{{ tools | tojson if tools }}"""
    adapter = adapter_of(write_model(tmp_path, template=template))
    call = ToolCallPart(id="c", name="weather", arguments='{"city": "Oslo"}')
    assert adapter.verdict.tool_parser_id == "llama_python"
    prompt = prompt_of(adapter, ask(USER, Message(role="assistant", parts=(call,)), USER, tools=(WEATHER,)))
    assert '"arguments": {"city": "Oslo"}' in prompt


def test_template_without_tools_gets_them_in_the_system_prompt(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, template=PLAIN_TEMPLATE))
    assert (adapter.verdict.tool_delivery, adapter.can_force_tools) == ("injected", True)
    tool = ToolSpec(
        name="send_mail",
        parameters={
            "type": "object",
            "properties": {"to": {"type": "string"}, "kind": {"$ref": "#/$defs/Kind"}, "note": {}},
            "required": ["to", "kind"],
            "$defs": {"Kind": {"enum": ["plain", "html"]}},
        },
    )
    prompt = prompt_of(adapter, ask(USER, tools=(ToolSpec(name="now"), tool)))
    assert '{"name": "send_mail", "arguments": {"to": "...", "kind": "plain"}}' in prompt
    assert prompt.count("<tool_call>") == 1


def test_tools_that_the_template_cannot_render_are_in_the_system_prompt(tmp_path: Path) -> None:
    template = (
        "{%- for tool in tools or [] if 'unit' in tool.function.parameters.properties %}"
        "{{- 1 + tool.function.name }}{% endfor %}" + QWEN_TEMPLATE
    )
    adapter = adapter_of(write_model(tmp_path, template=template))
    assert adapter.verdict.tool_delivery == "template"
    tool = ToolSpec(name="look", parameters={"type": "object", "properties": {"unit": {"type": "string"}}})
    assert '{"name": "look", "arguments": {}}' in prompt_of(adapter, ask(USER, tools=(tool,)))


def test_template_that_needs_argument_descriptions_gets_them(tmp_path: Path) -> None:
    template = (
        """{%- for tool in tools or [] -%}{{- '<tool_call>' + tool.function.name + ' ' -}}
{%- for name, value in tool.function.parameters.properties.items() -%}
{{- name + ('' if name in tool.function.parameters.required else '?') + ': ' + value.description + '\\n' -}}
{%- endfor -%}{%- endfor -%}"""
        + PLAIN_TEMPLATE
    )
    adapter = adapter_of(write_model(tmp_path, template=template))
    tool = ToolSpec(name="look", parameters={"properties": {"place": {"type": "string"}}})
    assert prompt_of(adapter, ask(USER, tools=(tool,))).startswith("<tool_call>look place?: \n")


def test_template_that_needs_types_of_values_gets_them(tmp_path: Path) -> None:
    template = (
        """{%- macro kind(schema) -%}{%- if schema.type == 'object' -%}
{{- 'map of ' + kind(schema.additionalProperties) -}}
{%- else -%}{{- schema.type or 'any' -}}{%- endif -%}{%- endmacro -%}
{%- for tool in tools or [] -%}{{- '<tool_call>' + tool.function.name + ' ' -}}
{%- for name, value in tool.function.parameters.properties.items() -%}
{{- name + ': ' + kind(value) + '; ' + (value.description or '') + '\n' -}}
{%- endfor -%}{%- endfor -%}"""
        + PLAIN_TEMPLATE
    )
    adapter = adapter_of(write_model(tmp_path, template=template))
    members = {"deep": {"type": "integer"}}
    properties = {"a": {"type": "object"}, "b": {"type": "object", "properties": members}}
    tool = ToolSpec(name="look", parameters={"type": "object", "properties": properties})
    shown = prompt_of(adapter, ask(USER, tools=(tool,)))
    assert shown.startswith("<tool_call>look a: map of any; \nb: map of any; (type: {deep?: integer})\n")
