"""The profiles of model families, by `ModelFacts.family`.

A new family is one entry here.
"""

from mlxctl.formats.adapters.adapter import NO_DEFAULTS, UNKNOWN_CAPABILITIES, ModelAdapter
from mlxctl.formats.adapters.family_profile import FamilyProfile
from mlxctl.formats.adapters.request_defaults import RequestDefaults
from mlxctl.ir import ModelCapabilities, ModelFacts

_UNKNOWN = FamilyProfile()

_FAMILIES = {
    "qwen": FamilyProfile(
        # 2 to 2.5 and 3 write JSON, the coders and 3.5 write tags.
        tool_parser_ids=("hermes_json", "qwen3_coder"),
        # Configurations name one of them, seldom both; a model that was trained further may generate either.
        end_tokens=("<|im_end|>", "<|endoftext|>"),
    ),
    "glm4": FamilyProfile(
        tool_parser_ids=("glm4_native", "glm4_xml"),
        # The models end an answer by opening the next turn: the user's, or the tool's.
        end_tokens=("<|endoftext|>", "<|user|>", "<|observation|>"),
    ),
    "llama": FamilyProfile(
        # The last two are fine-tunes with other templates.
        tool_parser_ids=("llama_python", "llama_xml", "functionary", "functools"),
        # `<|eom_id|>` and `<|eom|>` end a message that waits for a tool, `<|eot_id|>` and `<|eot|>` a turn.
        end_tokens=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|eot|>", "<|eom|>"),
    ),
    "gemma": FamilyProfile(
        # 2, 3 and 3n were not trained on tool definitions, but write code for them.
        tool_parser_ids=("gemma4", "function_gemma", "gemma"),
        injected_parser_id="gemma",
        # FunctionGemma and Gemma 4 end a call by opening its result.
        end_tokens=("<end_of_turn>", "<turn|>", "<start_function_response>", "<|tool_response>"),
    ),
    "mistral": FamilyProfile(
        tool_parser_ids=("mistral",),
        end_tokens=("</s>",),
    ),
    "liquid": FamilyProfile(
        tool_parser_ids=("liquid_python",),
        end_tokens=("<|im_end|>",),
    ),
    "gpt-oss": FamilyProfile(
        tool_parser_ids=("harmony",),
        # `<|return|>` ends an answer and `<|call|>` a call; `<|end|>` ends one of several messages.
        end_tokens=("<|return|>", "<|call|>", "<|endoftext|>"),
        # gpt-oss has three efforts, and cannot turn thinking off.
        efforts={"none": "low", "minimal": "low", "xhigh": "high", "max": "high"},
    ),
    "deepseek": FamilyProfile(
        # GigaChat uses this architecture.
        tool_parser_ids=("deepseek", "gigachat3"),
        end_tokens=("<｜end▁of▁sentence｜>",),
    ),
    "kimi": FamilyProfile(
        tool_parser_ids=("kimi_k2", "kimi_k3"),
        end_tokens=("<|im_end|>", "[EOS]"),
    ),
    "minimax": FamilyProfile(
        tool_parser_ids=("minimax_m2", "minimax_m3", "tool_calls_json"),
        end_tokens=("[e~[",),
    ),
    "granite": FamilyProfile(
        # Version 3 writes a list after a marker, which may be spelled as version 4's tag.
        tool_parser_ids=("hermes_json", "granite", "granite_20b"),
        end_tokens=("<|end_of_text|>",),
    ),
    "phi": FamilyProfile(
        # Only Phi-4-mini was trained on tool definitions.
        tool_parser_ids=("phi4",),
        end_tokens=("<|end|>", "<|im_end|>", "<|endoftext|>"),
    ),
    "cohere": FamilyProfile(
        tool_parser_ids=("command_r",),
        end_tokens=("<|END_OF_TURN_TOKEN|>",),
        # The newer templates name the variable `reasoning`.
        thinking_switches=("enable_thinking", "thinking", "reasoning"),
    ),
    "seed": FamilyProfile(
        tool_parser_ids=("seed_oss",),
        end_tokens=("<seed:eos>",),
    ),
    "minicpm": FamilyProfile(
        tool_parser_ids=("minicpm5",),
        # MiniCPM 5 is meant to think only on request; its template leaves it open.
        thinks_by_default=False,
        end_tokens=("<|im_end|>", "</s>"),
    ),
    "ling": FamilyProfile(
        tool_parser_ids=("glm4_native", "hermes_json"),
        end_tokens=("<|role_end|>",),
    ),
    "nemotron": FamilyProfile(
        # Nano 2 writes lists, 3 writes tags.
        tool_parser_ids=("qwen3_coder", "nemotron", "hermes_json"),
    ),
    "hunyuan": FamilyProfile(
        # Hy3 writes tags, A13B writes JSON.
        tool_parser_ids=("hunyuan", "tool_calls_json"),
        end_tokens=("<｜hy_eos:opensource｜>", "<｜hy_eos｜>", "<|eos|>"),
    ),
    "olmo": FamilyProfile(
        tool_parser_ids=("olmo3",),
        end_tokens=("<|im_end|>", "<|endoftext|>"),
    ),
    "muse": FamilyProfile(
        tool_parser_ids=("muse",),
        # `<|eom|>` ends one of several messages.
        end_tokens=("<|eot|>",),
    ),
    "longcat": FamilyProfile(
        tool_parser_ids=("longcat", "hermes_json"),
        end_tokens=("</longcat_s>",),
    ),
    "apertus": FamilyProfile(
        tool_parser_ids=("apertus",),
        end_tokens=("<|assistant_end|>", "<|tools_suffix|>"),
    ),
    "solar": FamilyProfile(
        tool_parser_ids=("solar_open",),
        # `<|calls|>` ends the calls; `<|end|>` ends a thought.
        end_tokens=("<|calls|>", "<|flush|>"),
    ),
    "internlm": FamilyProfile(
        tool_parser_ids=("internlm2",),
        end_tokens=("<|im_end|>", "<|action_end|>"),
    ),
    "mimo": FamilyProfile(
        # The first version writes JSON, as its template shows.
        tool_parser_ids=("mimo",),
        end_tokens=("<|im_end|>", "<|endoftext|>"),
    ),
    "jamba": FamilyProfile(
        tool_parser_ids=("tool_calls_json",),
    ),
    "apriel": FamilyProfile(
        tool_parser_ids=("tool_calls_json",),
        end_tokens=("<|end|>",),
    ),
}


def create_adapter(
    facts: ModelFacts,
    *,
    name: str,
    capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES,
    request_defaults: RequestDefaults = NO_DEFAULTS,
) -> ModelAdapter:
    """Create the adapter of a model that is served as `name`.

    A family without an entry has no defaults: everything is detected from the model's files. `capabilities`
    were measured before and override the detection. Raises BrokenModel when tokenizer or template cannot be
    used.
    """
    profile = _FAMILIES.get(facts.family or "", _UNKNOWN)
    return ModelAdapter(
        facts, name=name, profile=profile, capabilities=capabilities, request_defaults=request_defaults
    )
