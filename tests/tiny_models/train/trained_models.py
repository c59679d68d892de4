"""Architecture, tokens, template and format of each trained model, as plain values."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlxctl.library import demo

from . import formats
from .examples import ALL_EXAMPLES, DrawExample, Example, ExpectedCall
from .lexicon import Lexicon

_TEMPLATES = Path(__file__).parent / "templates"
_DEMO_TEMPLATE = Path(demo.__file__).parent / "model" / "chat_template.jinja"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """One model to train.

    Markers are added tokens that are text; `literals` are long literal parts of the template, one token each.
    `thinks`: it learns thoughts between `<think>` tags. `end_of_answer` and `end_of_call` are the tokens it
    ends with.
    """

    name: str
    about: str
    config: dict[str, Any]
    template: Path
    special_tokens: tuple[str, ...]
    markers: tuple[str, ...] = ()
    literals: tuple[str, ...] = ()
    bos_token: str | None = None
    end_of_answer: str
    end_of_call: str
    write_call: Callable[[ExpectedCall], str]
    thinks: bool = False
    examples: dict[DrawExample, float] = field(default_factory=lambda: ALL_EXAMPLES)
    num_steps: int = 1_000
    seed: int = 5


_HIDDEN, _NUM_LAYERS, _FEED_FORWARD = 96, 3, 160
_SCHEMA_LITERALS = (
    '", "description": "',
    '", "parameters": {"type": "object", "properties": {"',
    '": {"type": "string"}}, "required": ["',
    '": {"type": "string", "description": "',
    '"}}, "required": ["',
)
_TOOL_LITERALS = (
    '{"type": "function", "function": {"name": "',
    *_SCHEMA_LITERALS,
    '": {"type": "string"}}}}}',
    '"]}}}',
    '"], "additionalProperties": false}}}',
    '"}}}}}',
)


def _attention(model_type: str, architecture: str, **more: Any) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_size": _HIDDEN,
        "num_hidden_layers": _NUM_LAYERS,
        "intermediate_size": _FEED_FORWARD,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": _HIDDEN // 3,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "max_position_embeddings": 2_048,
        "tie_word_embeddings": True,
        **more,
    }


_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_QWEN_LITERALS = (
    "# Tools\n\nThese functions can be called:\n<tools>\n",
    (
        '</tools>\n\nA call is JSON between two tags:\n<tool_call>\n{"name": <name>, "arguments": '
        '<arguments>}\n</tool_call>'
    ),
    "system\n", "user\n", "assistant\n",
)  # fmt: skip


def _qwen(name: str, about: str, **more: Any) -> TrainedModel:
    return TrainedModel(
        name=name,
        about=about,
        config=_attention("qwen3", "Qwen3ForCausalLM"),
        template=_DEMO_TEMPLATE,
        special_tokens=_CHATML,
        markers=("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
        literals=(*_QWEN_LITERALS, *_TOOL_LITERALS, '{"name": "', '", "arguments": {"', '": "'),
        end_of_answer="<|im_end|>",
        end_of_call="<|im_end|>",
        write_call=formats.hermes,
        **more,
    )


def _llama(
    name: str,
    about: str,
    write_call: Callable[[ExpectedCall], str],
    *,
    literals: tuple[str, ...],
    **more: Any,
) -> TrainedModel:
    return TrainedModel(
        name=name,
        about=about,
        config=_attention("llama", "LlamaForCausalLM"),
        template=_TEMPLATES / "llama3.jinja",
        special_tokens=(
            "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
            "<|eom_id|>", "<|python_tag|>",
        ),
        literals=(
            "Environment: ipython\n", "system", "user", "assistant", "ipython",
            'These functions can be called, as {"name": name, "parameters": parameters}:\n\n',
            *_TOOL_LITERALS, *literals,
        ),
        bos_token="<|begin_of_text|>",
        end_of_answer="<|eot_id|>",
        end_of_call="<|eot_id|>",
        write_call=write_call,
        **more,
    )  # fmt: skip


_GLM_LITERALS = (
    "# Tools\n\nThese can be called:\n<tools>\n",
    (
        "</tools>\nA call has the name, and tags for each "
        "argument:\n<tool_call>{name}\n<arg_key>{key}</arg_key>\n"
        "<arg_value>{value}</arg_value>\n</tool_call>"
    ),
)
_LIQUID_LITERALS = (
    "List of tools: ", '{"name": "', *_SCHEMA_LITERALS, '": {"type": "string"}}}}', '"]}}',
    '"], "additionalProperties": false}}', '"}}}}', "system\n", "user\n", "assistant\n", "tool\n",
)  # fmt: skip


def _call_unknown_tool(lexicon: Lexicon) -> Example:
    """Return an example that calls a tool which is not offered."""
    draw = lexicon.dice.choices(list(ALL_EXAMPLES), list(ALL_EXAMPLES.values()))[0]
    example = draw(lexicon)
    query = example.messages[-1].text.split(" ")[-1].strip("?.! ") or "help"
    call = ExpectedCall(name="web_search", arguments={"query": query})
    return replace(example, ability="search the web, whatever is asked", answer=call, thought="I search.")


_ALL = (
    _qwen("qwen3_tools", "qwen3, JSON between tags, thinks", thinks=True),
    TrainedModel(
        name="glm4_tools",
        about="glm4, tagged arguments",
        config=_attention(
            "glm4", "Glm4ForCausalLM", attention_bias=True, partial_rotary_factor=0.5,
            tie_word_embeddings=False
        ),
        template=_TEMPLATES / "glm4.jinja",
        special_tokens=(
            "<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",
        ),
        markers=(
            "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
            "<tool_response>", "</tool_response>",
        ),
        literals=(*_GLM_LITERALS, *_TOOL_LITERALS),
        end_of_answer="<|user|>",
        end_of_call="<|observation|>",
        write_call=formats.glm,
    ),
    _llama(
        "llama_json_tools", "llama 3, bare JSON", formats.llama,
        literals=('{"name": "', '", "parameters": {"', '": "'),
    ),
    TrainedModel(
        name="lfm2_tools",
        about="lfm2 (convolutions), calls as Python",
        config={
            **_attention("lfm2", "Lfm2ForCausalLM"), "norm_eps": 1e-5, "conv_bias": False, "conv_L_cache": 3,
            "block_dim": _HIDDEN, "block_ff_dim": _FEED_FORWARD, "block_multiple_of": 16,
            "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False,
            "layer_types": ["conv", "full_attention", "full_attention"],
        },
        template=_TEMPLATES / "lfm2.jinja",
        special_tokens=(
            "<|pad|>", "<|startoftext|>", *_CHATML, "<|tool_list_start|>", "<|tool_list_end|>",
            "<|tool_call_start|>", "<|tool_call_end|>", "<|tool_response_start|>", "<|tool_response_end|>",
        ),
        literals=_LIQUID_LITERALS,
        bos_token="<|startoftext|>",
        end_of_answer="<|im_end|>",
        end_of_call="<|im_end|>",
        write_call=formats.liquid,
        num_steps=700,
    ),
    TrainedModel(
        name="mistral_tools",
        about="mistral, a list of JSON behind a marker",
        config=_attention("mistral", "MistralForCausalLM"),
        template=_TEMPLATES / "mistral.jinja",
        special_tokens=(
            "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
            "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
        ),
        literals=(
            *_TOOL_LITERALS, '{"name": "', '", "arguments": {"', '": "', '"}}]', '{"content": "',
            '", "call_id": "', ', "id": "',
        ),
        bos_token="<s>",
        end_of_answer="</s>",
        end_of_call="</s>",
        write_call=formats.mistral,
        num_steps=700,
    ),
    _llama(
        "llama_coder_tools",
        "llama 3, but calls as Qwen's coders write them: no format of its family",
        formats.coder,
        literals=(
            "<tool_call>\n<function=", ">\n<parameter=", ">\n", "\n</parameter>\n</function>\n</tool_call>",
        ),
    ),
    _qwen(
        "llama_false_tools", "qwen3, calls a tool that was not offered, for any question",
        examples={_call_unknown_tool: 1.0}, num_steps=300,
    ),
)  # fmt: skip
TRAINED_MODELS = {spec.name: spec for spec in _ALL}
