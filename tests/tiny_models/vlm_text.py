"""Recipes of text models whose classes only mlx-vlm has.

Windows, pools and budgets of sparse attention are so small that a prompt of some 40 tokens goes beyond them.
"""

from .families import attention, qwen3_family

_VISION = {"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": 8}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_ROUTED = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
    "routed_scaling_factor": 1.5,
}  # fmt: skip
_LATENT = {
    "kv_lora_rank": 32, "q_lora_rank": 32, "v_head_dim": 16, "qk_nope_head_dim": 16, "index_head_dim": 16,
    "index_n_heads": 16,
}  # fmt: skip

CONFIGS = {
    "flint": attention(
        "flint",
        layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=16, mlp_only_layers=[0],
        no_rope_layer_indices=[3], shared_expert_intermediate_size=32, **_EXPERTS,
    ),
    "qwen4_exp": {
        "model_type": "qwen4_exp",
        "text_config": attention(
            "qwen4_exp_text",
            linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16,
            linear_value_head_dim=16, linear_conv_kernel_dim=4, full_attention_interval=2,
            shared_expert_intermediate_size=32, hc_count=2, hc_lowrank=16, ple_layer_ids=[1],
            ple_embed_dim=64, ngram_size=3, heads_per_ngram=2, ngram_vocab_size_base=64,
            make_ngram_vocab_size_divisible_by=8, split_ngram_parts=2, indexer_n_heads=2, indexer_kv_heads=1,
            indexer_head_dim=16, indexer_budget=16, indexer_compress_ratio=4, eos_token_id=0,
            rope_parameters={
                "type": "default", "mrope_section": [2, 1, 1], "rope_theta": 1_000_000.0,
                "partial_rotary_factor": 0.5,
            },
            **_EXPERTS,
        ),
        "vision_config": {
            "model_type": "qwen4_exp", "out_hidden_size": 64, "num_position_embeddings": 16,
            "deepstack_visual_indexes": [], "spatial_merge_size": 2, "temporal_patch_size": 2,
            "in_channels": 3, **_VISION,
        },
    },
    "glm5_next": {
        "model_type": "glm5_next",
        "text_config": attention(
            "glm5_next_text",
            num_key_value_heads=4, qk_rope_head_dim=0, first_k_dense_replace=1,
            layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"],
            indexer_types=["full", "full", "full", "shared"], index_topk=16, index_kpool=4,
            linear_head_dim=16, linear_num_heads=4, hc_mult=2, hc_sinkhorn_iters=4, **_ROUTED, **_LATENT,
        ),
        "vision_config": {
            "model_type": "glm5_next_vision", "out_hidden_size": 64, "projection_intermediate_size": 64,
            "image_size": 32, **_VISION,
        },
    },
    "hy_v4": attention(
        "hy_v4",
        num_key_value_heads=1, qk_rope_head_dim=8, index_topk=16, hc_mult=2, first_k_dense_replace=1,
        indexer_types=["full", "shared", "full", "shared"], **_ROUTED, **_LATENT,
    ),
    "deepseek_v4": attention(
        "deepseek_v4",
        num_key_value_heads=1, head_dim=32, q_lora_rank=32, qk_rope_head_dim=8, o_groups=2, o_lora_rank=16,
        compress_ratios=[0, 4, 4, 0], sliding_window=16, index_topk=4, index_n_heads=16, index_head_dim=16,
        hc_mult=2, hc_sinkhorn_iters=4, num_hash_layers=1, **_ROUTED,
    ),
    "minimax_m3": attention(
        "minimax_m3",
        dense_intermediate_size=128, shared_intermediate_size=32, num_local_experts=4, num_experts_per_tok=2,
        layer_types=["full_attention", "minimax_m3_sparse"] * 2, index_n_heads=2, index_head_dim=16,
        index_block_size=8, index_topk_blocks=2, index_local_blocks=1,
    ),
    "step3p7": {
        "model_type": "step3p7",
        "text_config": attention(
            "step3p5",
            num_attention_groups=2, max_seq_len=32_768, moe_num_experts=4, moe_top_k=2,
            moe_intermediate_size=32, share_expert_dim=32, moe_layers_enum="1,3", sliding_window=16,
            layer_types=["full_attention", "sliding_attention"] * 2,
        ),
        "vision_config": {
            "model_type": "perception_encoder", "width": 16, "layers": 1, "heads": 2, "image_size": 32,
            "patch_size": 8, "mlp_ratio": 2.0,
        },
    },
}  # fmt: skip

VLM_TEXT = {name: qwen3_family(name, config, is_of_mlx_vlm=True) for name, config in CONFIGS.items()}
"""One model for each class, by `model_type`."""
