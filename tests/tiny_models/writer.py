"""Writes a generated model: random weights and the directory.

Outputs must depend on the whole prompt to be comparable. So sublayers outweigh the embeddings in the residual
stream, queries and keys are large enough that attention selects, recurrent states decay slowly, and the last
norm spreads the logits so far that rounding does not change the largest one.
"""

import copy
import json
import math
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from mlxctl.library.text_config import text_part

from .families import TEMPLATES, Family
from .small_towers import small_towers
from .vocabulary import train_tokenizer

_LOGIT_SPREAD = 4.0
_ATTENTION_SHARPNESS = 2.5
_EMBEDDING_SIZE = 0.3
_END_FEATURE = 1.0
_END_PENALTY = -80.0
_NUM_EXPERTS = 4


def build(family: Family, directory: Path) -> None:
    """Write the family's model into `directory`."""
    tokenizer = train_tokenizer(family)
    end_ids = [tokenizer.token_to_id(token) for token in family.end_tokens]
    config = {**family.config, "vocab_size": family.vocab_size, "eos_token_id": end_ids[0]}
    token_ids = {field: tokenizer.token_to_id(token) for field, token in family.token_ids.items()}
    if "thinker_config" in config:
        config["thinker_config"] = _with_vocabulary(config["thinker_config"] | token_ids, family)
    else:
        config = _with_vocabulary(config | token_ids, family)
    weights = draw_weights(family, config)
    if family.endless:
        _forbid(weights, [i for i in range(family.vocab_size) if not _is_plain(tokenizer, i)])
    if family.headless:
        weights = {
            name.removeprefix("model."): weight
            for name, weight in weights.items()
            if name != "lm_head.weight"
        }
    mx.eval(weights)
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
    for name, value in family.beside.items():
        (directory / name).parent.mkdir(exist_ok=True)
        _write_json(directory / name, value)
    if family.headless:
        end = family.end_tokens[-1]
        tokenizer.post_processor = TemplateProcessing(single=f"$A {end}", special_tokens=[(end, end_ids[-1])])
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "chat_template.jinja").write_bytes(TEMPLATES[family.template].read_bytes())
    _write_json(directory / "config.json", config)
    _write_json(directory / "generation_config.json", {"eos_token_id": end_ids})
    _write_json(directory / "tokenizer_config.json", _tokenizer_config(family))


def _with_vocabulary(config: dict[str, Any], family: Family) -> dict[str, Any]:
    if "text_config" not in config:
        return config
    return {**config, "text_config": {**config["text_config"], "vocab_size": family.vocab_size}}


def draw_weights(family: Family, config: dict[str, Any]) -> dict[str, mx.array]:
    """Draw every parameter of the architecture.

    Keys depend on the seed and the parameter's index.
    """
    template = dict(tree_flatten(_architecture(family, config).parameters()))
    words = text_part(config)
    if words["tie_word_embeddings"]:
        template.pop("lm_head.weight", None)
        template.pop("language_model.lm_head.weight", None)
    keys = mx.random.split(mx.random.key(family.seed), len(template))
    return {
        name: _draw(
            name.removeprefix("thinker.").removeprefix("language_model."),
            parameter,
            keys[index],
            family,
            words,
        )
        for index, (name, parameter) in enumerate(sorted(template.items()))
    }


def _architecture(family: Family, config: dict[str, Any]) -> Any:
    if not (family.sees or family.is_of_mlx_vlm):
        model_class, args_class = _get_classes(config)
        return model_class(args_class.from_dict(config))
    from mlx_vlm.utils import get_model_and_args, update_module_configs

    package, _ = get_model_and_args(config)
    values = copy.deepcopy(config)
    values.setdefault("text_config", {})
    modules = ["text", "vision", *(["audio"] if "audio_config" in values else [])]
    with small_towers():
        return package.Model(
            update_module_configs(package.ModelConfig.from_dict(values), package, values, modules)
        )


def _draw(name: str, parameter: mx.array, key: mx.array, family: Family, config: dict[str, Any]) -> mx.array:
    width, shape = config["hidden_size"], parameter.shape
    if not mx.issubdtype(parameter.dtype, mx.floating):
        # Which experts a token has is drawn; other whole numbers follow from the configuration.
        is_drawn = name.endswith("tid2eid")
        return mx.random.randint(0, _NUM_EXPERTS, shape, parameter.dtype, key=key) if is_drawn else parameter
    if name.endswith(("A_log", "dt_bias")):
        return mx.random.uniform(low=-5.0, high=-1.0, shape=shape, key=key)
    if name.startswith(("vision_tower", "audio_tower", "multi_modal_projector")):
        return _draw_vision_encoder(name, shape, key)
    if family.sees and name.endswith(".bias"):
        return 0.3 * mx.random.normal(shape, key=key)
    if len(shape) == 1:
        scale = _ATTENTION_SHARPNESS if name.endswith(("q_norm.weight", "k_norm.weight")) else 1.0
        if name in ("model.norm.weight", "model.embedding_norm.weight"):
            scale = _LOGIT_SPREAD * (1 / _EMBEDDING_SIZE if config["tie_word_embeddings"] else 1.0)
        return mx.full(shape, scale - 1.0 if family.zero_centred_norms else scale)
    if name.endswith("embed_tokens.weight"):
        # A tied table is also the head, so it is drawn with the head's scale; Gemma scales it up itself.
        deviation = _EMBEDDING_SIZE * (width**-0.5 if config["tie_word_embeddings"] else 1.0)
        return deviation * mx.random.normal(shape, key=key)
    gain = _ATTENTION_SHARPNESS if name.endswith(("q_proj.weight", "k_proj.weight")) else 1.0
    fan_in = shape[1] if "conv" in name and len(shape) == 3 and shape[2] == 1 else shape[-1]
    return mx.random.normal(shape, key=key) * gain * fan_in**-0.5


def _draw_vision_encoder(name: str, shape: tuple[int, ...], key: mx.array) -> mx.array:
    """Draw a parameter of the vision part that keeps its input's scale.

    It has no norms.
    """
    if len(shape) == 1:
        return mx.full(shape, 0.0 if name.endswith("bias") or "mm_soft_emb_norm" in name else 1.0)
    return mx.random.normal(shape, key=key) * math.prod(shape[1:]) ** -0.5


def _forbid(weights: dict[str, mx.array], token_ids: list[int]) -> None:
    """Let a constant residual feature exclude the given tokens."""
    for name, weight in weights.items():
        if name.endswith(("embed_tokens.weight", "embeddings.weight")):
            weight[:, 0] = _END_FEATURE
        if name.endswith(("o_proj.weight", "down_proj.weight", "mixer.out_proj.weight")):
            weight[0, :] = 0.0
    weights["lm_head.weight"][:, 0] = 0.0
    weights["lm_head.weight"][mx.array(token_ids), 0] = _END_PENALTY


def _is_plain(tokenizer: Tokenizer, token_id: int) -> bool:
    if token_id in tokenizer.get_added_tokens_decoder():
        return False
    text = tokenizer.decode([token_id])
    return text.isascii() and text.isprintable()


def _tokenizer_config(family: Family) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": family.bos_token,
        "eos_token": family.end_tokens[0],
        "model_max_length": text_part(family.config)["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
        **({"extra_special_tokens": family.named_tokens} if family.named_tokens else {}),
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
