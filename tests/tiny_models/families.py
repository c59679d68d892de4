"""Recipes of generated models, as plain values."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlxctl.library import demo

TEMPLATES = {
    "qwen3": Path(demo.__file__).parent / "model" / "chat_template.jinja",
    **{path.stem: path for path in sorted((Path(__file__).parent / "templates").glob("*.jinja"))},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One generated model: configuration, added tokens, and how weights are drawn.

    Markers are added tokens that decoding keeps, like Qwen's think and tool tags; `endless` models generate
    only printable ASCII and never end; `zero_centred_norms` is Gemma's way to store norm weights. A
    `headless` model is an embedding model: its weights are saved as by sentence-transformers, without head
    and without `model.` before their names, its tokenizer ends every text with the last end token, and
    `beside` are further files, as JSON values. A model that `sees` has a vision part as in mlx-vlm; the class
    of one that `is_of_mlx_vlm` is in mlx-vlm only. `token_ids` are fields of its configuration, with the
    tokens whose ids they have, and `named_tokens` are fields of the tokenizer's.
    """

    name: str
    template: str
    special_tokens: tuple[str, ...]
    markers: tuple[str, ...] = ()
    bos_token: str | None
    end_tokens: tuple[str, ...]
    config: dict[str, Any]
    vocab_size: int = 512
    seed: int = 7
    endless: bool = False
    zero_centred_norms: bool = False
    headless: bool = False
    beside: dict[str, Any] = field(default_factory=dict)
    sees: bool = False
    is_of_mlx_vlm: bool = False
    token_ids: dict[str, str] = field(default_factory=dict)
    named_tokens: dict[str, str] = field(default_factory=dict)


_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_QWEN3_MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_LLAMA3 = (
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
    "<|eom_id|>", "<|python_tag|>",
)  # fmt: skip
_GEMMA3 = ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")
_LFM2 = (
    "<|pad|>", "<|startoftext|>", *_CHATML, "<|tool_list_start|>", "<|tool_list_end|>", "<|tool_call_start|>",
    "<|tool_call_end|>", "<|tool_response_start|>", "<|tool_response_end|>",
)  # fmt: skip
_MISTRAL = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
)  # fmt: skip


def attention(
    model_type: str, *, hidden_size: int = 64, num_hidden_layers: int = 4, **more: Any
) -> dict[str, Any]:
    """Return the configuration that all models share, without the vocabulary."""
    return {
        "model_type": model_type,
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "intermediate_size": 2 * hidden_size,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": hidden_size // 4,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "max_position_embeddings": 32_768,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        **more,
    }


def qwen3_family(name: str, config: dict[str, Any], **more: Any) -> Family:
    return Family(
        name=name,
        template="qwen3",
        special_tokens=_CHATML,
        markers=_QWEN3_MARKERS,
        bos_token=None,
        end_tokens=("<|im_end|>", "<|endoftext|>"),
        config=config,
        **more,
    )


_QWEN3_NEXT = attention(
    "qwen3_next", linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16,
    linear_value_head_dim=16, linear_conv_kernel_dim=4, num_experts=4, num_experts_per_tok=2,
    decoder_sparse_step=1, mlp_only_layers=[], shared_expert_intermediate_size=64, moe_intermediate_size=32,
    partial_rotary_factor=0.5, norm_topk_prob=True, full_attention_interval=2,
)  # fmt: skip
_MAMBA = attention(
    "mamba",
    state_size=16, conv_kernel=4, use_bias=False, use_conv_bias=True, time_step_rank=8,
)  # fmt: skip
_QWEN3_MOE = attention(
    "qwen3_moe", num_hidden_layers=2,
    num_experts=4, num_experts_per_tok=2, decoder_sparse_step=1, mlp_only_layers=[], moe_intermediate_size=32,
    norm_topk_prob=True,
)  # fmt: skip
_DEEPSEEK_V3 = attention(
    "deepseek_v3", num_hidden_layers=2,
    num_key_value_heads=4, moe_intermediate_size=32, n_shared_experts=1, n_routed_experts=4,
    num_experts_per_tok=2, kv_lora_rank=32, q_lora_rank=48, qk_rope_head_dim=16, v_head_dim=16,
    qk_nope_head_dim=16, first_k_dense_replace=1, n_group=1, topk_group=1,
)  # fmt: skip
_LFM2_CONFIG = attention(
    "lfm2",
    norm_eps=1e-5, conv_bias=False, conv_L_cache=3, block_dim=64, block_ff_dim=128, block_multiple_of=16,
    block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=False, tie_word_embeddings=True,
    layer_types=["conv", "full_attention", "conv", "full_attention"],
)  # fmt: skip
_GPT_OSS_CONFIG = attention(
    "gpt_oss",
    sliding_window=32, num_local_experts=4, num_experts_per_tok=2, rope_scaling=None, rope_theta=150_000,
    layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
)  # fmt: skip
_GEMMA3_CONFIG = attention(
    "gemma3_text",
    sliding_window=32, sliding_window_pattern=2, query_pre_attn_scalar=16, rope_local_base_freq=10_000.0,
    tie_word_embeddings=True,
)  # fmt: skip

_QWEN_VL = {
    "template": "qwen3",
    "special_tokens": (*_CHATML, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"),
    "markers": _QWEN3_MARKERS,
    "bos_token": None,
    "end_tokens": ("<|im_end|>", "<|endoftext|>"),
    "sees": True,
    "token_ids": {
        "image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>",
    },
}  # fmt: skip
# A cell is 2 x 2 patches of 8 pixels.
_QWEN_VISION = {
    "depth": 3,
    "num_heads": 2,
    "patch_size": 8,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "in_channels": 3,
}
_QWEN_PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessor", "patch_size": 8, "merge_size": 2,
    "temporal_patch_size": 2, "min_pixels": 256, "max_pixels": 16_384, "image_mean": [0.48, 0.46, 0.41],
    "image_std": [0.27, 0.26, 0.28],
}  # fmt: skip


def _qwen3_5(name: str, model_type: str, **more: Any) -> Family:
    text = attention(
        f"{model_type}_text",
        linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16, linear_value_head_dim=16,
        linear_conv_kernel_dim=4, full_attention_interval=2, **more,
    )  # fmt: skip
    text["rope_parameters"] = {
        "rope_type": "default", "mrope_section": [2, 1, 1], "mrope_interleaved": True,
        "rope_theta": 1_000_000.0, "partial_rotary_factor": 0.5,
    }  # fmt: skip
    vision = {
        "model_type": model_type, "hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 64,
        "num_position_embeddings": 16, "deepstack_visual_indexes": [], **_QWEN_VISION,
    }  # fmt: skip
    return Family(
        name=name,
        config={"model_type": model_type, "text_config": text, "vision_config": vision},
        beside={"preprocessor_config.json": _QWEN_PROCESSOR},
        **_QWEN_VL,
    )


_SEERS = (
    Family(
        name="qwen2_vl",
        config={
            **attention("qwen2_vl", rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]}),
            "vision_config": {
                "model_type": "qwen2_vl", "embed_dim": 32, "hidden_size": 64, "mlp_ratio": 2,
                **_QWEN_VISION,
            },
        },
        beside={"preprocessor_config.json": _QWEN_PROCESSOR},
        **_QWEN_VL,
    ),
    Family(
        name="qwen2_5_vl",
        config={
            **attention("qwen2_5_vl", rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]}),
            "vision_config": {
                "model_type": "qwen2_5_vl", "hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 64,
                "window_size": 32, "fullatt_block_indexes": [1], **_QWEN_VISION,
            },
        },
        beside={"preprocessor_config.json": _QWEN_PROCESSOR},
        **_QWEN_VL,
    ),
    Family(
        name="qwen3_vl",
        config={
            "model_type": "qwen3_vl",
            "text_config": attention(
                "qwen3_vl_text",
                rope_scaling={"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True}
            ),
            "vision_config": {
                "model_type": "qwen3_vl", "hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 64,
                "num_position_embeddings": 16, "deepstack_visual_indexes": [0, 1], **_QWEN_VISION,
            },
        },
        beside={
            "preprocessor_config.json": {
                **{name: value for name, value in _QWEN_PROCESSOR.items() if not name.endswith("_pixels")},
                "size": {"shortest_edge": 256, "longest_edge": 16_384},
            }
        },
        **_QWEN_VL,
    ),
    Family(
        name="qwen3_vl_moe",
        config={
            "model_type": "qwen3_vl_moe",
            "text_config": attention(
                "qwen3_vl_moe_text",
                rope_scaling={"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True},
                num_experts=4, num_experts_per_tok=2, decoder_sparse_step=1, mlp_only_layers=[],
                moe_intermediate_size=32, norm_topk_prob=True,
            ),
            "vision_config": {
                "model_type": "qwen3_vl_moe", "hidden_size": 32, "intermediate_size": 64,
                "out_hidden_size": 64, "num_position_embeddings": 16, "deepstack_visual_indexes": [0, 1],
                **_QWEN_VISION,
            },
        },
        beside={"preprocessor_config.json": _QWEN_PROCESSOR},
        **_QWEN_VL,
    ),
    _qwen3_5("qwen3_5_seer", "qwen3_5"),
    _qwen3_5(
        "qwen3_5_moe_seer", "qwen3_5_moe", num_experts=4, num_experts_per_tok=2,
        shared_expert_intermediate_size=64, moe_intermediate_size=32, norm_topk_prob=True,
    ),
    Family(
        name="gemma3_seer",
        template="gemma3",
        special_tokens=(*_GEMMA3, "<start_of_image>", "<image_soft_token>", "<end_of_image>"),
        bos_token="<bos>",
        end_tokens=("<end_of_turn>", "<eos>"),
        config={
            "model_type": "gemma3",
            "mm_tokens_per_image": 16,
            "hidden_size": 64,
            "text_config": {**_GEMMA3_CONFIG, "mm_tokens_per_image": 16},
            "vision_config": {
                "model_type": "siglip_vision_model", "num_hidden_layers": 2, "hidden_size": 32,
                "intermediate_size": 64, "num_attention_heads": 2, "patch_size": 8, "image_size": 64,
            },
        },
        beside={
            "preprocessor_config.json": {
                "image_processor_type": "Gemma3ImageProcessor", "size": {"height": 64, "width": 64},
                "resample": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
            }
        },
        zero_centred_norms=True,
        sees=True,
        token_ids={"image_token_index": "<image_soft_token>"},
    ),
)  # fmt: skip

_ALL = (
    *_SEERS,
    qwen3_family("qwen3", attention("qwen3")),
    Family(
        name="llama3",
        template="llama3",
        special_tokens=_LLAMA3,
        bos_token="<|begin_of_text|>",
        end_tokens=("<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"),
        config=attention("llama", rope_theta=500_000.0),
    ),
    Family(
        name="gemma3",
        template="gemma3",
        special_tokens=_GEMMA3,
        bos_token="<bos>",
        end_tokens=("<end_of_turn>", "<eos>"),
        config=_GEMMA3_CONFIG,
        zero_centred_norms=True,
    ),
    Family(
        name="lfm2",
        template="lfm2",
        special_tokens=_LFM2,
        bos_token="<|startoftext|>",
        end_tokens=("<|im_end|>",),
        config=_LFM2_CONFIG,
    ),
    qwen3_family("qwen3_next", _QWEN3_NEXT),
    # mlx-lm's layers read the padding of a batch like tokens.
    qwen3_family("mamba", _MAMBA),
    # Its channels and template are not needed in tests of its layers.
    qwen3_family("gpt_oss", _GPT_OSS_CONFIG),
    Family(
        name="mistral",
        template="mistral",
        special_tokens=_MISTRAL,
        bos_token="<s>",
        end_tokens=("</s>",),
        config=attention("mistral", rope_theta=10_000.0),
    ),
    qwen3_family("endless", attention("qwen3"), endless=True),
    # Its recurrent states do not grow, so that answers never fill the memory.
    qwen3_family("endless_mamba", _MAMBA, endless=True),
    qwen3_family(
        "bench5m",
        attention("qwen3", hidden_size=256, num_hidden_layers=6, intermediate_size=768),
        vocab_size=1024,
        endless=True,
    ),
    qwen3_family(
        "embedder",
        attention("qwen3", max_position_embeddings=1024),
        headless=True,
        beside={
            "modules.json": [
                {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                {
                    "idx": 2,
                    "name": "2",
                    "path": "2_Normalize",
                    "type": "sentence_transformers.models.Normalize",
                },
            ],
            "1_Pooling/config.json": {
                "word_embedding_dimension": 64,
                "pooling_mode_lasttoken": True,
                "include_prompt": True,
            },
        },
    ),
)
RANKED = (
    qwen3_family("qwen2", attention("qwen2", num_hidden_layers=2)),
    qwen3_family("qwen3_moe", _QWEN3_MOE),
    qwen3_family("deepseek_v3", _DEEPSEEK_V3),
)
"""Models of which only the layers are tested, on several ranks."""
FAMILIES = {family.name: family for family in _ALL}
