"""The family of a model, from architecture and chat template.

The template takes precedence where only one family writes it: derived models borrow an architecture (a
DeepSeek distillation is a `qwen2`) but bring their own template.
"""

# By prefix of `model_type`; the longest match counts.
_BY_MODEL_TYPE = {
    "aya_vision": "cohere", "bailing": "ling", "chatglm": "glm4", "cohere": "cohere", "command": "cohere",
    "deepseek": "deepseek", "ernie": "ernie", "exaone": "exaone", "falcon": "falcon", "gemma": "gemma",
    "glm": "glm4", "gpt_oss": "gpt-oss", "granite": "granite", "hunyuan": "hunyuan", "internlm": "internlm",
    "jamba": "jamba", "kimi": "kimi", "lfm2": "liquid", "llama": "llama", "mimo": "mimo",
    "minicpm": "minicpm", "minimax": "minimax", "ministral": "mistral", "mistral": "mistral",
    "mixtral": "mistral", "mllama": "llama", "moonshot": "kimi", "nemotron": "nemotron", "olmo": "olmo",
    "paligemma": "gemma", "phi": "phi", "pixtral": "mistral", "qwen": "qwen", "seed_oss": "seed",
    "smollm": "smollm", "smolvlm": "smollm", "voxtral": "mistral", "bert": "bert", "modernbert": "bert",
    "roberta": "bert", "xlm-roberta": "bert", "xlm_roberta": "bert", "apertus": "apertus", "apriel": "apriel",
    "hy_v": "hunyuan", "hy3": "hunyuan", "longcat": "longcat", "muse": "muse", "solar": "solar",
    "whisper": "whisper", "kokoro": "kokoro", "parakeet": "parakeet", "qwen3_tts": "qwen-tts",
    "soprano": "soprano", "pocket_tts": "pocket-tts", "voxtral_tts": "voxtral-tts",
}  # fmt: skip
# Markers that only one family writes.
_BY_TEMPLATE = {
    "<｜User｜>": "deepseek", "<|im_user|>": "kimi", "]~b]": "minimax", "<|start_of_role|>": "granite",
    "<start_of_turn>": "gemma", "<|START_OF_TURN_TOKEN|>": "cohere", "<|start_header_id|>": "llama",
    "[gMASK]": "glm4", "<seed:think>": "seed",
}  # fmt: skip


def find_family(model_type: str, template: str | None) -> tuple[str | None, str]:
    """Return the family with its evidence; None for an unknown one."""
    fitting = [beginning for beginning in _BY_MODEL_TYPE if model_type.startswith(beginning)]
    by_type = _BY_MODEL_TYPE[max(fitting, key=len)] if fitting else None
    marked = [(mark, family) for mark, family in _BY_TEMPLATE.items() if mark in (template or "")]
    if len({family for _, family in marked}) == 1 and marked[0][1] != by_type:
        mark, family = marked[0]
        return family, f"the chat template writes {mark!r}"
    return by_type, f"model_type {model_type!r}"
