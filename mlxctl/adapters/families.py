"""The families, by the name that `ModelFacts.family` gives them, and the adapter that a model gets; a new
family is a row here.
"""

from mlxctl.adapters.adapter import NOTHING_KNOWN, ModelAdapter
from mlxctl.adapters.family_profile import FamilyProfile
from mlxctl.ir import ModelCapabilities, ModelFacts

_UNKNOWN = FamilyProfile()

_FAMILIES = {
    "qwen": FamilyProfile(
        # 2 to 2.5 and 3 write JSON, the coders and 3.5 write tags.
        tool_parser_ids=("hermes_json", "qwen3_coder"),
        # Configurations name one of them, seldom both; a model that was trained on further text may say
        # either.
        end_tokens=("<|im_end|>", "<|endoftext|>"),
    ),
    "glm4": FamilyProfile(
        tool_parser_ids=("glm4_native", "glm4_xml"),
        # It hands over by opening somebody else's turn: the user's, or the tool's.
        end_tokens=("<|endoftext|>", "<|user|>", "<|observation|>"),
    ),
    "llama": FamilyProfile(
        # The last two are fine-tunes with templates of their own.
        tool_parser_ids=("llama_python", "llama_xml", "functionary", "functools"),
        injected_parser_id="hermes_json",
        # `<|eom_id|>` and `<|eom|>` end a message that waits for a tool, `<|eot_id|>` and `<|eot|>` a turn.
        end_tokens=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|eot|>", "<|eom|>"),
    ),
    "gemma": FamilyProfile(
        # 2, 3 and 3n were never told of tools, but write code for them.
        tool_parser_ids=("gemma4", "function_gemma", "gemma"),
        injected_parser_id="gemma",
        # FunctionGemma and Gemma 4 end a call by opening the answer to it.
        end_tokens=("<end_of_turn>", "<turn|>", "<start_function_response>", "<|tool_response>"),
    ),
    "mistral": FamilyProfile(
        tool_parser_ids=("mistral",),
        injected_parser_id="hermes_json",
        end_tokens=("</s>",),
    ),
    "liquid": FamilyProfile(
        tool_parser_ids=("liquid_python",),
        end_tokens=("<|im_end|>",),
    ),
    "gpt-oss": FamilyProfile(
        tool_parser_ids=("harmony",),
        # `<|return|>` ends an answer and `<|call|>` a call; `<|end|>` ends a message among others, and is no
        # end.
        end_tokens=("<|return|>", "<|call|>", "<|endoftext|>"),
        # It has three efforts, and cannot do without thinking.
        efforts={"none": "low", "minimal": "low", "xhigh": "high", "max": "high"},
    ),
    "deepseek": FamilyProfile(
        # GigaChat borrows the architecture.
        tool_parser_ids=("deepseek", "gigachat3"),
        injected_parser_id="hermes_json",
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
        # A list behind a marker in version 3, which may be spelled as the tag of version 4 is.
        tool_parser_ids=("hermes_json", "granite", "granite_20b"),
        end_tokens=("<|end_of_text|>",),
    ),
    "phi": FamilyProfile(
        # Of all of them only Phi-4-mini was told of tools.
        tool_parser_ids=("phi4",),
        injected_parser_id="hermes_json",
        end_tokens=("<|end|>", "<|im_end|>", "<|endoftext|>"),
    ),
    "cohere": FamilyProfile(
        tool_parser_ids=("command_r",),
        end_tokens=("<|END_OF_TURN_TOKEN|>",),
        # The newer templates call the switch so.
        thinking_switches=("enable_thinking", "thinking", "reasoning"),
    ),
    "seed": FamilyProfile(
        tool_parser_ids=("seed_oss",),
        end_tokens=("<seed:eos>",),
    ),
    "minicpm": FamilyProfile(
        tool_parser_ids=("minicpm5",),
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
        # `<|eom|>` ends a message among others, and is no end.
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
        # `<|calls|>` ends the calls; `<|end|>` ends a thought among others, and is no end.
        end_tokens=("<|calls|>", "<|flush|>"),
    ),
    "internlm": FamilyProfile(
        tool_parser_ids=("internlm2",),
        end_tokens=("<|im_end|>", "<|action_end|>"),
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
    facts: ModelFacts, *, name: str, capabilities: ModelCapabilities = NOTHING_KNOWN
) -> ModelAdapter:
    """Make the adapter of a model that is served as `name`; raises BrokenModel when tokenizer or template
    cannot be used.

    Of a family without a row nothing is assumed: all is told from the model's files. `capabilities` are what
    was found out about the model before; they win over what its files suggest.
    """
    profile = _FAMILIES.get(facts.family or "", _UNKNOWN)
    return ModelAdapter(facts, name=name, profile=profile, capabilities=capabilities)
