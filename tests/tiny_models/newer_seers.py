"""Recipes of further vision models with random weights, one for each family."""

from .families import Family, attention
from .seers import EVEN, QWEN_PROCESSOR, SIGLIP, seer
from .vlm_text import CONFIGS

_GRID_OF_TILES = tuple(f"TILE_{number}" for number in range(1, 5))

_GLM_PATCHES = {"patch_size": 8, "merge_size": 2, "temporal_patch_size": 2}
_QWEN35_TEXT = attention(
    "qwen3_5",
    linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16, linear_value_head_dim=16,
    linear_conv_kernel_dim=4, full_attention_interval=2,
    rope_parameters={
        "type": "default", "mrope_section": [2, 1, 1], "rope_theta": 1_000_000.0,
        "partial_rotary_factor": 0.5,
    },
)  # fmt: skip

NEWER_SEERS: tuple[Family, ...] = (
    seer(
        "minicpmv4_6",
        {
            "model_type": "minicpmv4_6",
            "patch_size": 8,
            "insert_layer_id": 0,
            "text_config": _QWEN35_TEXT,
            "vision_config": {
                "model_type": "minicpmv4_6_vision", **SIGLIP, "num_hidden_layers": 2, "image_size": 64,
            },
        },
        tokens=(
            "<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>", "<|image_pad|>",
            "<|video_pad|>",
        ),
        token_ids={"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"},
        named_tokens={"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"},
        beside={
            "preprocessor_config.json": {
                "image_processor_type": "MiniCPMVImageProcessor", "patch_size": 8, "scale_resolution": 32,
                "max_slice_nums": 9,
            }
        },
    ),
    seer(
        "glm5_next_seer",
        CONFIGS["glm5_next"],
        tokens=(
            "<|begin_of_image|>", "<|image|>", "<|end_of_image|>", "<|video|>", "<|begin_of_video|>",
            "<|end_of_video|>",
        ),
        token_ids={
            "image_token_id": "<|image|>", "video_token_id": "<|video|>",
            "image_start_token_id": "<|begin_of_image|>", "image_end_token_id": "<|end_of_image|>",
            "video_start_token_id": "<|begin_of_video|>", "video_end_token_id": "<|end_of_video|>",
        },
        named_tokens={"image_token": "<|image|>", "video_token": "<|video|>"},
        beside={
            "processor_config.json": {
                "processor_class": "Glm5NextProcessor",
                "image_processor": {**_GLM_PATCHES, "min_image_tokens": 4, "max_image_tokens": 12},
                "video_processor": {**_GLM_PATCHES, "min_image_tokens": 4, "max_image_tokens": 36},
            }
        },
    ),
    seer(
        "step3p7_seer",
        {
            **CONFIGS["step3p7"],
            "vision_config": {**CONFIGS["step3p7"]["vision_config"], "image_size": 728, "patch_size": 14},
        },
        tokens=("<im_patch>", "<im_start>", "<im_end>", "<patch_start>", "<patch_end>", "<patch_newline>"),
        token_ids={"image_token_id": "<im_patch>"},
        beside={"processor_config.json": {"processor_class": "Step3VLProcessor"}},
    ),
    seer(
        "qwen4_exp_seer",
        CONFIGS["qwen4_exp"],
        tokens=("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"),
        token_ids={
            "image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>",
            "vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>",
        },
        named_tokens={"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"},
        beside={"preprocessor_config.json": QWEN_PROCESSOR},
    ),
    seer(
        "aya_vision",
        {
            "model_type": "aya_vision",
            "downsample_factor": 2,
            "alignment_intermediate_size": 64,
            "text_config": attention("cohere2", layer_norm_eps=1e-5, sliding_window=16, logit_scale=4.0),
            "vision_config": {"model_type": "siglip_vision_model", **SIGLIP},
        },
        tokens=("<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_PATCH|>", *_GRID_OF_TILES, "TILE_GLOBAL"),
        token_ids={"image_token_index": "<|IMG_PATCH|>"},
        beside={
            "preprocessor_config.json": {
                "image_processor_type": "GotOcr2ImageProcessor", "crop_to_patches": True, "max_patches": 4,
                "size": {"height": 32, "width": 32}, "resample": 3, **EVEN,
            },
            "processor_config.json": {
                "processor_class": "AyaVisionProcessor", "patch_size": 8, "img_size": 32,
                "downsample_factor": 2,
            },
        },
    ),
    seer(
        "phi4mm",
        {
            **attention("phi4mm", partial_rotary_factor=1.0),
            "mm_hidden_size": 32,
            "min_num_patches": 4,
            "max_num_patches": 16,
            "vision_config": {"model_type": "siglip2_vision_model", **SIGLIP},
            "audio_processor": {
                "config": {
                    "attention_dim": 32, "attention_heads": 2, "num_blocks": 2, "linear_units": 64,
                    "ext_pw_out_channel": 32, "depthwise_seperable_out_channel": 32, "conv_channels": 8,
                }
            },
        },
        tokens=("<|endoftext10|>", "<|endoftext11|>"),
        token_ids={"image_token_id": "<|endoftext10|>", "audio_token_index": "<|endoftext11|>"},
    ),
    seer(
        "deepseekocr",
        {
            "model_type": "deepseekocr",
            "text_config": attention(
                "deepseek_v2",
                num_key_value_heads=4, qk_rope_head_dim=0, qk_nope_head_dim=0, moe_intermediate_size=32,
                n_shared_experts=1, n_routed_experts=4, num_experts_per_tok=2, first_k_dense_replace=1,
            ),
            "vision_config": {
                "model_type": "vision", "layers": 1, "hidden_size": 32, "intermediate_size": 32,
                "num_attention_heads": 2,
            },
            "projector_config": {"projector_type": "linear", "input_dim": 64, "n_embed": 64},
        },
        tokens=("<image>", "<｜▁pad▁｜>"),
        token_ids={"image_token_index": "<image>"},
        beside={
            "processor_config.json": {
                "processor_class": "DeepseekOCRProcessor", "candidate_resolutions": [[1024, 1024]],
                "patch_size": 16, "downsample_ratio": 4, "image_mean": [0.5, 0.5, 0.5],
                "image_std": [0.5, 0.5, 0.5], "pad_token": "<｜▁pad▁｜>",
            }
        },
    ),
    seer(
        "gemma3n_seer",
        {
            "model_type": "gemma3n",
            "vision_soft_tokens_per_image": 16,
            "audio_soft_tokens_per_image": 12,
            "vocab_size": 512,
            "text_config": attention(
                "gemma3n_text",
                tie_word_embeddings=True, rope_local_base_freq=10_000.0, sliding_window=16, laurel_rank=8,
                layer_types=["sliding_attention", "full_attention"] * 2, altup_active_idx=0,
                altup_num_inputs=2, altup_coef_clip=120.0, altup_correct_scale=True,
                hidden_size_per_layer_input=8, vocab_size_per_layer_input=508,
                # mlx-vlm's class reads shared keys at wrong positions.
                num_kv_shared_layers=0, activation_sparsity_pattern=[0.0] * 4, final_logit_softcapping=30.0,
                query_pre_attn_scalar=16,
            )
            | {"intermediate_size": [128] * 4},
            "vision_config": {
                "model_type": "gemma3n_vision", "hidden_size": 32, "vocab_size": 2, "vocab_offset": 508,
            },
            "audio_config": {
                "input_feat_size": 128, "hidden_size": 32, "conf_num_attention_heads": 2,
                "conf_num_hidden_layers": 1, "sscp_conv_channel_size": [8, 4], "vocab_size": 2,
                "vocab_offset": 510,
            },
        },
        tokens=(
            "<start_of_image>", "<start_of_audio>", "<end_of_image>", "<image_soft_token>", "<end_of_audio>",
            "<audio_soft_token>",
        ),
        token_ids={"image_token_id": "<image_soft_token>", "audio_token_id": "<audio_soft_token>"},
        named_tokens={
            "image_token": "<image_soft_token>", "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>", "audio_token": "<audio_soft_token>",
            "boa_token": "<start_of_audio>", "eoa_token": "<end_of_audio>",
        },
        beside={
            "preprocessor_config.json": {
                "image_processor_type": "SiglipImageProcessor", "size": {"height": 64, "width": 64},
                "resample": 2, "do_normalize": False, "do_convert_rgb": True, **EVEN,
                "feature_extractor_type": "Gemma3nAudioFeatureExtractor", "feature_size": 128,
            },
            "processor_config.json": {
                "processor_class": "Gemma3nProcessor", "audio_seq_length": 12, "image_seq_length": 16,
            },
        },
    ),
)  # fmt: skip
