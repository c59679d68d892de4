"""Recipes of models that take audio, with random weights.

`gemma4_seer` is one too.
"""

from dataclasses import replace

from .families import Family, attention
from .seers import gemma4, seer

_AUDIO_TOKENS = ("<|audio_start|>", "<|audio_pad|>", "<|audio_end|>")
_VISION_TOKENS = ("<|vision_start|>", "<|image_pad|>", "<|video_pad|>", "<|vision_end|>")

_OMNI_TEXT = attention(
    "qwen3_omni_moe_text",
    num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, decoder_sparse_step=1, mlp_only_layers=[],
    rope_scaling={"type": "default", "mrope_section": [2, 3, 3]},
)  # fmt: skip

_GEMMA4 = gemma4(
    "gemma4_unified",
    hidden_size_per_layer_input=0, num_kv_shared_layers=0, attention_k_eq_v=False,
    num_global_key_value_heads=2, use_double_wide_mlp=False, use_bidirectional_attention=None,
)  # fmt: skip

HEARERS: tuple[Family, ...] = (
    replace(
        _GEMMA4,
        config={
            **_GEMMA4.config,
            "model_type": "gemma4_unified",
            "audio_config": {"model_type": "gemma4_unified_audio"},
            "vision_config": {
                "model_type": "gemma4_unified_vision", "mm_embed_dim": 32, "output_proj_dims": 32,
                "mm_posemb_size": 16, "patch_size": 8, "model_patch_size": 16, "pooling_kernel_size": 2,
            },
        },
        beside={
            "processor_config.json": {
                **_GEMMA4.beside["processor_config.json"], "processor_class": "Gemma4UnifiedProcessor",
            }
        },
    ),
    seer(
        "qwen3_omni_moe",
        {
            "model_type": "qwen3_omni_moe",
            "enable_audio_output": False,
            "thinker_config": {
                "model_type": "qwen3_omni_moe_thinker",
                "text_config": _OMNI_TEXT,
                "vision_config": {
                    "model_type": "qwen3_omni_moe_vision_encoder", "depth": 2, "hidden_size": 32,
                    "intermediate_size": 64, "num_heads": 2, "patch_size": 8, "spatial_merge_size": 2,
                    "temporal_patch_size": 2, "out_hidden_size": 64, "num_position_embeddings": 16,
                    "deepstack_visual_indexes": [0],
                },
                "audio_config": {
                    "model_type": "qwen3_omni_moe_audio_encoder", "d_model": 32, "encoder_layers": 2,
                    "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "output_dim": 64,
                    "downsample_hidden_size": 8,
                },
            },
            # Not built: it generates text only.
            "talker_config": {"text_config": {**_OMNI_TEXT, "vocab_size": 64}},
        },
        tokens=(*_AUDIO_TOKENS, *_VISION_TOKENS),
        token_ids={
            "audio_token_id": "<|audio_pad|>", "audio_start_token_id": "<|audio_start|>",
            "audio_end_token_id": "<|audio_end|>", "image_token_id": "<|image_pad|>",
            "video_token_id": "<|video_pad|>", "vision_start_token_id": "<|vision_start|>",
            "vision_end_token_id": "<|vision_end|>",
        },
        named_tokens={
            "audio_token": "<|audio_pad|>", "audio_bos_token": "<|audio_start|>",
            "audio_eos_token": "<|audio_end|>", "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>", "vision_bos_token": "<|vision_start|>",
            "vision_eos_token": "<|vision_end|>",
        },
        beside={
            "preprocessor_config.json": {
                "image_processor_type": "Qwen2VLImageProcessor",
                "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128,
                "sampling_rate": 16_000, "hop_length": 160, "n_fft": 400, "dither": 0.0,
                "return_attention_mask": True,
                "patch_size": 8, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 256,
                "max_pixels": 16_384, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
                "processor_class": "Qwen3OmniMoeProcessor",
            }
        },
    ),
)  # fmt: skip
