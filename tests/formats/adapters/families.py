"""Every supported family: a template of its shape and the expected detection.

The templates were written for these tests.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlxctl.formats.adapters import ModelAdapter

from .directories import adapter_of, write_model
from .tokenizers_in_code import byte_level

_TEMPLATES = Path(__file__).parent / "templates"
_OPEN, _CLOSED = "<think>\n", "<think>\n\n</think>\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyCase:
    """One template and its expected prompts.

    `forced` is the end of a prompt that forces the tool `get_weather`, and `rest` the model's continuation,
    for Oslo. `converted` names what the template does not support. `without_thinking` ends a prompt with
    thinking off, `with_thinking` one with thinking on; None without thinking support.
    """

    name: str
    model_type: str
    tools: str
    forced: str
    rest: str = ""
    thinking: str = "null"
    delivery: str = "template"
    switch: str | None = None
    without_thinking: str | None = None
    with_thinking: str | None = None
    converted: frozenset[str] = field(default_factory=frozenset)
    tokens: tuple[str, ...] = ()


def adapter_for(case: FamilyCase, directory: Path, **more: Any) -> ModelAdapter:
    """Return an adapter with the case's template.

    No other token than `tokens` identifies its family.
    """
    source = (_TEMPLATES / f"{case.name}.jinja").read_text(encoding="utf-8")
    special = {"bos_token": "<bos>", "eos_token": "</s>"}
    config = {"model_type": case.model_type, "max_position_embeddings": 65_536}
    return adapter_of(
        write_model(
            directory,
            template=source,
            tokenizer=byte_level(case.tokens),
            config=config,
            tokenizer_config=special,
            **more,
        )
    )


def _takes_all_but(*names: str) -> frozenset[str]:
    return frozenset(names)


_STRICT = _takes_all_but(
    "later_system", "repeated_roles", "tools", "calls", "parallel_calls", "text_beside_calls", "results"
)
_HERMES = '<tool_call>\n{"name": "get_weather", "arguments":'
_HERMES_REST = ' {"city": "Oslo"}}\n</tool_call>'
_CODER = "<tool_call>\n<function=get_weather>\n"
_CODER_REST = "<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>"

CASES = (
    FamilyCase(name="qwen2_5", model_type="qwen2", tools="hermes_json", rest=_HERMES_REST, forced=_HERMES),
    FamilyCase(
        name="qwen3",
        model_type="qwen3",
        tools="hermes_json",
        rest=_HERMES_REST,
        forced=_HERMES,
        thinking="think_tag",
        switch="enable_thinking",
        without_thinking=_CLOSED,
        with_thinking="assistant\n",
    ),
    FamilyCase(
        name="qwen3_5",
        model_type="qwen3_5",
        tools="qwen3_coder",
        rest=_CODER_REST,
        forced=_CODER,
        thinking="think_tag",
        switch="enable_thinking",
        without_thinking=_CLOSED,
        with_thinking=_OPEN,
        converted=_takes_all_but("later_system"),
    ),
    FamilyCase(
        name="qwen3_coder", model_type="qwen3_moe", tools="qwen3_coder", rest=_CODER_REST, forced=_CODER
    ),
    FamilyCase(
        name="mimo_v2",
        model_type="mimo_v2_flash",
        tools="mimo",
        rest="<parameter=city>Oslo</parameter>\n</function>\n</tool_call>",
        forced=_CODER,
    ),
    FamilyCase(
        name="glm4",
        model_type="glm4",
        tools="glm4_xml",
        rest='{"city": "Oslo"}</arguments></tool_call>',
        forced="<tool_call><name>get_weather</name><arguments>",
        converted=_takes_all_but("text_beside_calls"),
    ),
    FamilyCase(
        name="glm4_5",
        model_type="glm4_moe",
        tools="glm4_native",
        rest="<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>",
        forced="<tool_call>get_weather\n",
        thinking="think_tag",
        switch="enable_thinking",
        without_thinking="<|assistant|>\n<think></think>",
        with_thinking="<|assistant|>",
    ),
    FamilyCase(
        name="llama3_1",
        model_type="llama",
        tools="llama_python",
        rest=' {"city": "Oslo"}}',
        forced='{"name": "get_weather", "parameters":',
        converted=_takes_all_but("parallel_calls", "text_beside_calls"),
    ),
    FamilyCase(
        name="llama4", model_type="llama4", tools="llama_python", rest='city="Oslo")]', forced="[get_weather("
    ),
    FamilyCase(
        name="gemma2",
        model_type="gemma2",
        tools="gemma",
        rest='city="Oslo")\n```',
        forced="```tool_code\nget_weather(",
        delivery="injected",
        converted=_STRICT | {"system"},
    ),
    FamilyCase(
        name="gemma3",
        model_type="gemma3n",
        tools="gemma",
        rest='city="Oslo")\n```',
        forced="```tool_code\nget_weather(",
        delivery="injected",
        converted=_STRICT,
    ),
    FamilyCase(
        name="gemma4",
        model_type="gemma4",
        tools="gemma4",
        rest='city:<|"|>Oslo<|"|>}<tool_call|>',
        forced="<|tool_call>call:get_weather{",
        thinking="gemma4_channel",
        switch="enable_thinking",
        without_thinking="<|turn>model\n<|channel>thought\n<channel|>",
        with_thinking="<|turn>model\n",
    ),
    FamilyCase(
        name="function_gemma",
        model_type="gemma3_text",
        tools="function_gemma",
        rest="city:<escape>Oslo<escape>}<end_function_call>",
        forced="<start_function_call>call:get_weather{",
    ),
    FamilyCase(
        name="mistral_old",
        model_type="mistral",
        tools="mistral",
        rest=' {"city": "Oslo"}}]',
        forced='[TOOL_CALLS] [{"name": "get_weather", "arguments":',
        converted=_takes_all_but("later_system", "repeated_roles", "text_beside_calls"),
    ),
    FamilyCase(
        name="mistral_new",
        model_type="mistral3",
        tools="mistral",
        rest='{"city": "Oslo"}',
        forced="[TOOL_CALLS]get_weather[ARGS]",
        converted=_takes_all_but("later_system", "repeated_roles"),
    ),
    FamilyCase(
        name="magistral",
        model_type="mistral",
        tools="mistral",
        rest='{"city": "Oslo"}',
        forced="[TOOL_CALLS]get_weather[ARGS]",
        thinking="mistral_think",
        without_thinking="[/INST][THINK][/THINK]",
        with_thinking="[/INST]",
    ),
    FamilyCase(
        name="lfm2",
        model_type="lfm2_moe",
        tools="liquid_python",
        rest='city="Oslo")]<|tool_call_end|>',
        forced="<|tool_call_start|>[get_weather(",
    ),
    FamilyCase(
        name="gpt_oss",
        model_type="gpt_oss",
        tools="harmony",
        rest='{"city": "Oslo"}',
        forced="<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>",
        thinking="harmony_analysis",
        without_thinking="<|start|>assistant<|channel|>analysis<|message|><|end|><|start|>assistant",
        with_thinking="assistant",
        converted=_takes_all_but("later_system", "parallel_calls"),
    ),
    FamilyCase(
        name="llm_jp",
        model_type="llama",
        tools="harmony",
        rest='{"city": "Oslo"}<|call|>',
        forced=(
            "<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|> json<|message|>"
        ),
        thinking="harmony_analysis",
        without_thinking="<|start|>assistant<|channel|>analysis<|message|><|end|><|start|>assistant",
        with_thinking="assistant",
        converted=_takes_all_but("later_system", "parallel_calls"),
    ),
    FamilyCase(
        name="deepseek_v3",
        model_type="deepseek_v3",
        tools="hermes_json",
        rest=_HERMES_REST,
        forced=_HERMES,
        delivery="injected",
        converted=_takes_all_but("tools"),
    ),
    FamilyCase(
        name="deepseek_dsml",
        model_type="deepseek_v32",
        tools="deepseek",
        rest='<｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        forced='<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n',
        thinking="think_tag",
        switch="thinking",
        without_thinking="<｜Assistant｜></think>",
        with_thinking="<｜Assistant｜><think>",
    ),
    FamilyCase(
        name="kimi_k2",
        model_type="kimi_k2",
        tools="kimi_k2",
        rest='{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>',
        forced="<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>",
    ),
    FamilyCase(
        name="minimax_m2",
        model_type="minimax",
        tools="minimax_m2",
        rest='<parameter name="city">Oslo</parameter>\n</invoke>\n</minimax:tool_call>',
        forced='<minimax:tool_call>\n<invoke name="get_weather">\n',
        thinking="think_tag",
        without_thinking="]~b]ai\n<think>\n\n</think>\n\n",
        with_thinking=_OPEN,
    ),
    FamilyCase(
        name="granite3",
        model_type="granite",
        tools="granite",
        rest=' {"city": "Oslo"}}]',
        forced='<|tool_call|>[{"name": "get_weather", "arguments":',
        thinking="think_tag",
        switch="thinking",
        without_thinking="<|end_of_role|>",
        with_thinking="<|end_of_role|>",
    ),
    FamilyCase(
        name="granite4", model_type="granitemoehybrid", tools="hermes_json", rest=_HERMES_REST, forced=_HERMES
    ),
    FamilyCase(
        name="phi4_mini",
        tokens=("<|tool_call|>", "<|/tool_call|>"),
        model_type="phi3",
        tools="phi4",
        rest=' {"city": "Oslo"}}]<|/tool_call|>',
        forced='<|tool_call|>[{"name": "get_weather", "arguments":',
        converted=_takes_all_but("calls", "parallel_calls", "text_beside_calls"),
    ),
    FamilyCase(
        name="command_a",
        model_type="cohere2",
        tools="command_r",
        rest=' {"city": "Oslo"}}\n]<|END_ACTION|>',
        forced='<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", "parameters":',
        thinking="cohere_think",
        switch="reasoning",
        without_thinking="<|START_THINKING|><|END_THINKING|>",
        with_thinking="<|CHATBOT_TOKEN|>",
    ),
    FamilyCase(
        name="seed_oss",
        model_type="seed_oss",
        tools="seed_oss",
        rest="<parameter=city>Oslo</parameter>\n</function>\n</seed:tool_call>",
        forced="<seed:tool_call>\n<function=get_weather>\n",
        thinking="seed_think",
        without_thinking="<seed:think>\n</seed:think>\n",
        with_thinking="assistant\n",
    ),
    FamilyCase(
        name="minicpm5",
        model_type="minicpm",
        tools="minicpm5",
        rest='<param name="city">Oslo</param></function>',
        forced='<function name="get_weather">',
        thinking="think_tag",
        switch="enable_thinking",
        without_thinking=_CLOSED,
        with_thinking=_OPEN,
    ),
    FamilyCase(
        name="nemotron_nano2",
        model_type="nemotron_h",
        tools="nemotron",
        rest=' {"city": "Oslo"}}]</TOOLCALL>',
        forced='<TOOLCALL>[{"name": "get_weather", "arguments":',
        thinking="think_tag",
        without_thinking="<think>\n\n</think>\n\n",
        with_thinking=_OPEN,
    ),
    FamilyCase(
        name="olmo3",
        model_type="olmo3",
        tools="olmo3",
        rest='city="Oslo")</function_calls>',
        forced="<function_calls>get_weather(",
        thinking="think_tag",
        without_thinking="<think>\n</think>\n\n",
        with_thinking="<think>",
    ),
    FamilyCase(
        name="longcat",
        model_type="longcat_flash",
        tools="longcat",
        rest=' {"city": "Oslo"}}\n</longcat_tool_call>',
        forced='<longcat_tool_call>\n{"name": "get_weather", "arguments":',
        thinking="longcat_think",
        switch="enable_thinking",
        without_thinking=" ASSISTANT:",
        with_thinking=" ASSISTANT:<longcat_think>\n",
    ),
    FamilyCase(
        name="apertus",
        model_type="apertus",
        tools="apertus",
        rest=' {"city": "Oslo"}}]<|tools_suffix|>',
        forced='<|tools_prefix|>[{"get_weather":',
        thinking="apertus_inner",
        switch="enable_thinking",
        without_thinking="<|assistant_start|>",
        with_thinking="<|assistant_start|>",
    ),
    FamilyCase(
        name="solar_open",
        model_type="solar_open",
        tools="solar_open",
        rest='{"city": "Oslo"}<|tool_call:end|><|calls|>',
        forced="<|tool_calls|><|tool_call:begin|>call000000<|tool_call:name|>get_weather<|tool_call:args|>",
        thinking="solar_think",
        without_thinking="<|begin|>assistant<|think|><|end|><|begin|>assistant",
        with_thinking="<|begin|>assistant",
    ),
    FamilyCase(
        name="gigachat3",
        model_type="deepseek_v3",
        tools="gigachat3",
        rest=' {"city": "Oslo"}}',
        forced='<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "get_weather", "arguments":',
    ),
    FamilyCase(
        name="jamba",
        model_type="jamba",
        tools="tool_calls_json",
        rest=' {"city": "Oslo"}}\n]</tool_calls>',
        forced='<tool_calls>[\n    {"name": "get_weather", "arguments":',
    ),
    FamilyCase(
        name="hunyuan_hy3",
        model_type="hy_v3",
        tools="hunyuan",
        rest="<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Oslo</arg_value:opensource>\n"
        "</tool_call:opensource>\n</tool_calls:opensource>",
        forced="<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n",
        thinking="hy_think",
        without_thinking="<think:opensource></think:opensource>",
        with_thinking="<think:opensource>",
    ),
    FamilyCase(
        name="minimax_m3",
        model_type="minimax_m3",
        tools="minimax_m3",
        rest="]<]minimax[>[<city>Oslo]<]minimax[>[</city>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
        forced=']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="get_weather">',
        thinking="mm_think",
        without_thinking="<mm:think></mm:think>",
        with_thinking="]~b]ai\n",
    ),
    FamilyCase(
        name="kimi_k3",
        model_type="kimi_k3",
        tools="kimi_k3",
        rest='<|open|>argument key="city" type="string"<|sep|>Oslo<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>tools<|sep|>",
        forced='<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>',
        thinking="kimi_k3_think",
        without_thinking="<|open|>think<|sep|><|close|>think<|sep|>",
        with_thinking="<|open|>think<|sep|>",
    ),
    FamilyCase(
        name="internlm2",
        model_type="internlm2",
        tools="internlm2",
        rest=' {"city": "Oslo"}}<|action_end|>',
        forced='<|action_start|><|plugin|>\n{"name": "get_weather", "parameters":',
        converted=_takes_all_but("parallel_calls"),
    ),
    FamilyCase(
        name="plamo3",
        model_type="plamo3",
        tools="plamo3",
        rest='{"city": "Oslo"}<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>'
        "<|plamo:end_tool_requests:plamo|>",
        forced="<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>"
        "<|plamo:begin_tool_name:plamo|>get_weather<|plamo:end_tool_name:plamo|>"
        "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>",
        thinking="plamo_think",
        without_thinking="<|plamo:begin_think:plamo|><|plamo:end_think:plamo|>",
        with_thinking="assistant<|plamo:msg|>",
    ),
    FamilyCase(
        name="unknown",
        model_type="unheard_of",
        tools="hermes_json",
        rest=_HERMES_REST,
        forced=_HERMES,
        delivery="injected",
        converted=_takes_all_but("tools", "calls", "parallel_calls", "text_beside_calls", "results"),
    ),
)
