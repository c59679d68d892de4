"""Recipes of vision models with random weights, one for each family."""

from typing import Any

from .families import Family, attention

_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
SIGLIP = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "patch_size": 8, "image_size": 32,
}  # fmt: skip
EVEN = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}


def seer(name: str, config: dict[str, Any], *, tokens: tuple[str, ...], **more: Any) -> Family:
    return Family(
        name=name,
        template="qwen_vl",
        special_tokens=(*_CHATML, *tokens),
        bos_token=None,
        end_tokens=("<|im_end|>", "<|endoftext|>"),
        config=config,
        sees=True,
        **more,
    )


def gemma4(name: str, *, audio: dict[str, Any] | None = None, **text: Any) -> Family:
    return seer(
        name,
        {
            "model_type": "gemma4",
            "hidden_size": 64,
            "vision_soft_tokens_per_image": 16,
            "audio_config": audio,
            "text_config": attention(
                "gemma4_text",
                global_head_dim=16, sliding_window=16, sliding_window_pattern=2, tie_word_embeddings=True,
                layer_types=["sliding_attention", "full_attention"] * 2, final_logit_softcapping=30.0,
                rope_parameters={
                    "full_attention": {
                        "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0, "rope_type": "proportional",
                    },
                    "sliding_attention": {"rope_theta": 10_000.0, "rope_type": "default"},
                },
                **text,
            ),
            "vision_config": {
                "model_type": "gemma4_vision", "hidden_size": 32, "intermediate_size": 64,
                "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16,
                "patch_size": 8, "pooling_kernel_size": 2, "position_embedding_size": 64,
                "default_output_length": 16,
            },
        },
        tokens=("<|image>", "<|image|>", "<image|>", "<|video|>", "<|audio>", "<|audio|>", "<audio|>"),
        token_ids={
            "image_token_id": "<|image|>", "boi_token_id": "<|image>", "eoi_token_id": "<image|>",
            "video_token_id": "<|video|>", "audio_token_id": "<|audio|>", "boa_token_id": "<|audio>",
            "eoa_token_id": "<audio|>",
        },
        named_tokens={
            "image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>",
            "video_token": "<|video|>", "audio_token": "<|audio|>", "boa_token": "<|audio>",
            "eoa_token": "<audio|>",
        },
        beside={
            "processor_config.json": {
                "processor_class": "Gemma4Processor",
                "image_processor": {"patch_size": 8, "pooling_kernel_size": 2, "max_soft_tokens": 16},
                "video_processor": {"patch_size": 8, "pooling_kernel_size": 2},
            }
        },
    )  # fmt: skip


QWEN_PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessor", "patch_size": 8, "merge_size": 2,
    "temporal_patch_size": 2, "min_pixels": 256, "max_pixels": 16_384, "image_mean": [0.48, 0.46, 0.41],
    "image_std": [0.27, 0.26, 0.28],
}  # fmt: skip


_ROPE = {"type": "default", "mrope_section": [2, 1, 1]}


def _glm(name: str, text: dict[str, Any]) -> Family:
    return seer(
        name,
        {
            "model_type": name,
            "text_config": text,
            "vision_config": {
                "model_type": f"{name}_vision", "depth": 2, "hidden_size": 32, "intermediate_size": 64,
                "num_heads": 2, "patch_size": 8, "image_size": 32, "spatial_merge_size": 2,
                "temporal_patch_size": 2, "out_hidden_size": 64,
            },
        },
        tokens=(
            "<|begin_of_image|>", "<|image|>", "<|end_of_image|>", "<|video|>", "<|begin_of_video|>",
            "<|end_of_video|>",
        ),
        token_ids={
            "image_token_id": "<|image|>", "video_token_id": "<|video|>",
            "vision_start_token_id": "<|begin_of_image|>", "vision_end_token_id": "<|end_of_image|>",
        },
        named_tokens={"image_token": "<|image|>", "video_token": "<|video|>"},
        beside={
            "preprocessor_config.json": {
                **QWEN_PROCESSOR, "image_processor_type": "Glm4vImageProcessor",
                "size": {"shortest_edge": 512, "longest_edge": 32_768},
            }
        },
    )  # fmt: skip


SEERS = (
    gemma4(
        "gemma4_seer",
        audio={
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "output_proj_dims": 48,
            "subsampling_conv_channels": [8, 4], "use_clipped_linears": False,
        },
        hidden_size_per_layer_input=8, vocab_size_per_layer_input=512, num_kv_shared_layers=2,
    ),
    gemma4(
        "gemma4_large_seer", hidden_size_per_layer_input=0, num_kv_shared_layers=0,
        use_bidirectional_attention="vision",
    ),
    seer(
        "lfm2_vl",
        {
            "model_type": "lfm2-vl",
            "downsample_factor": 2,
            "projector_hidden_size": 64,
            "text_config": attention(
                "lfm2",
                norm_eps=1e-5, conv_bias=False, conv_L_cache=3, block_dim=64, block_ff_dim=128,
                block_multiple_of=16, block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=False,
                tie_word_embeddings=True,
                layer_types=["conv", "full_attention", "conv", "full_attention"],
            ),
            "vision_config": {"model_type": "siglip2_vision_model", "num_patches": 16, **SIGLIP},
        },
        tokens=(
            "<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>",
            *(f"<|img_row_{row}_col_{column}|>" for row in (1, 2) for column in (1, 2, 3)),
        ),
        token_ids={"image_token_id": "<image>"},
        named_tokens={
            "image_token": "<image>", "image_start_token": "<|image_start|>",
            "image_end_token": "<|image_end|>", "image_thumbnail_token": "<|img_thumbnail|>",
        },
        beside={
            "preprocessor_config.json": {
                "image_processor_type": "Lfm2VlImageProcessorFast", "encoder_patch_size": 8,
                "downsample_factor": 2, "min_image_tokens": 2, "max_image_tokens": 6, "tile_size": 32,
                "max_pixels_tolerance": 2.0, "resample": 3, **EVEN,
            }
        },
    ),
    seer(
        "kimi_vl",
        {
            "model_type": "kimi_vl",
            "text_config": attention(
                "deepseek_v3",
                num_key_value_heads=4, moe_intermediate_size=32, n_shared_experts=1, n_routed_experts=4,
                kv_lora_rank=32, q_lora_rank=None, qk_rope_head_dim=8, v_head_dim=16, qk_nope_head_dim=16,
                n_group=1, topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1, rope_scaling=None,
            ),
            "vision_config": {
                "model_type": "moonvit", "depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2,
                "patch_size": 14, "intermediate_size": 64, "init_pos_emb_height": 4, "init_pos_emb_width": 4,
                "merge_kernel_size": [2, 2],
            },
        },
        tokens=("<|media_start|>", "<|media_content|>", "<|media_pad|>", "<|media_end|>"),
        token_ids={"media_placeholder_token_id": "<|media_pad|>"},
    ),
    seer(
        "smolvlm",
        {
            "model_type": "smolvlm",
            "scale_factor": 2,
            "text_config": attention("llama", rope_theta=10_000.0),
            "vision_config": {"model_type": "siglip_vision_model", **SIGLIP},
        },
        tokens=(
            "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>",
            *(f"<row_{row}_col_{column}>" for row in (1, 2, 3) for column in (1, 2, 3)),
        ),
        token_ids={"image_token_id": "<image>"},
        named_tokens={
            "image_token": "<image>", "fake_image_token": "<fake_token_around_image>",
            "global_image_token": "<global-img>",
        },
        beside={
            "preprocessor_config.json": {
                "image_processor_type": "SmolVLMImageProcessor", "size": {"longest_edge": 64},
                "max_image_size": {"longest_edge": 32}, "do_image_splitting": True, "do_rescale": True,
                "do_normalize": True, "do_resize": True, "do_convert_rgb": True, "do_pad": True,
                "rescale_factor": 1 / 255, "resample": 1, **EVEN,
            },
            "processor_config.json": {"processor_class": "SmolVLMProcessor", "image_seq_len": 4},
        },
    ),
    seer(
        "internvl_chat",
        {
            "model_type": "internvl_chat",
            "downsample_ratio": 0.5,
            "force_image_size": 32,
            "max_dynamic_patch": 4,
            "text_config": attention("qwen3"),
            "vision_config": {"model_type": "intern_vit_6b", **SIGLIP},
        },
        tokens=("<img>", "</img>", "<IMG_CONTEXT>"),
        token_ids={"image_token_index": "<IMG_CONTEXT>"},
    ),
    seer(
        "internvl",
        {
            "model_type": "internvl",
            "max_dynamic_patch": 4,
            "text_config": attention("qwen3"),
            "vision_config": {
                "model_type": "internvl_vision", **SIGLIP, "image_size": [32, 32], "patch_size": [8, 8],
            },
        },
        tokens=("<img>", "</img>", "<IMG_CONTEXT>"),
        token_ids={"image_token_id": "<IMG_CONTEXT>"},
        beside={"processor_config.json": {"processor_class": "InternVLProcessor", "image_seq_length": 4}},
    ),
    _glm("glm4v", attention("glm4v_text", attention_bias=True, rope_scaling=_ROPE)),
    _glm(
        "glm4v_moe",
        attention(
            "glm4v_moe_text",
            attention_bias=True, rope_scaling=_ROPE, n_routed_experts=4, num_experts_per_tok=2,
            n_shared_experts=1, moe_intermediate_size=32, first_k_dense_replace=1, routed_scaling_factor=1.0,
            n_group=1, topk_group=1, norm_topk_prob=True, partial_rotary_factor=0.5, use_qk_norm=False,
        ),
    ),
    _glm(
        "glm_ocr",
        {
            "model_type": "glm_ocr_text", "hidden_size": 64, "num_hidden_layers": 4, "intermediate_size": 128,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6,
            "max_position_embeddings": 32_768, "tie_word_embeddings": False,
            "rope_parameters": {
                "rope_type": "default", "mrope_section": [2, 3, 3], "partial_rotary_factor": 1.0,
                "rope_theta": 10_000,
            },
        },
    ),
    seer(
        "dots_ocr",
        {
            **attention("dots_ocr", attention_bias=True),
            "vision_config": {
                "model_type": "dots_vit", "embed_dim": 32, "hidden_size": 64, "intermediate_size": 64,
                "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 8, "spatial_merge_size": 2,
                "temporal_patch_size": 1,
            },
        },
        tokens=("<|img|>", "<|imgpad|>", "<|endofimg|>", "<|video_pad|>"),
        token_ids={"image_token_id": "<|imgpad|>", "video_token_id": "<|video_pad|>"},
        named_tokens={"image_token": "<|imgpad|>", "video_token": "<|video_pad|>"},
        beside={"preprocessor_config.json": {**QWEN_PROCESSOR, "temporal_patch_size": 1}},
    ),
    seer(
        "paddleocr_vl",
        {
            # Its projector's width is in mlx-vlm's code.
            **attention(
                "paddleocr_vl",
                hidden_size=1024, num_hidden_layers=2, use_bias=False,
                rope_scaling={"type": "default", "mrope_section": [2, 3, 3]},
            ),
            "head_dim": 16,
            "intermediate_size": 64,
            "vision_config": {
                "model_type": "paddleocr_vl", "hidden_size": 32, "intermediate_size": 64,
                "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 8, "image_size": 32,
                "spatial_merge_size": 2,
            },
        },
        tokens=("<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>", "<|video_pad|>"),
        token_ids={
            "image_token_id": "<|IMAGE_PLACEHOLDER|>", "video_token_id": "<|video_pad|>",
            "vision_start_token_id": "<|IMAGE_START|>",
        },
        beside={
            "preprocessor_config.json": {
                "min_pixels": 256, "max_pixels": 16_384, "patch_size": 8, "merge_size": 2,
                "temporal_patch_size": 1, **EVEN,
            }
        },
    ),
)  # fmt: skip
