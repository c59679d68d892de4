"""What reading a prompt takes for a moment, beside weights and cache: an estimate, held against measurements of small models.

A chunk of prompt goes through one layer at a time. Alive at once are about eight copies of its hidden states and four of the
layer's inner ones. Where attention is not one fused kernel, its scores are there in full, with their mask: a number for every
head, every token of the chunk and every token before it. Of the logits only one row is worked out.
"""

from collections.abc import Mapping
from typing import Any

from mlxctl.models.text_config import text_part, whole_number

# Metal's fused kernel knows these head dimensions when it reads prompts (MLX, scaled_dot_product_attention.cpp).
_FUSED_HEAD_DIMENSIONS = (64, 80, 128)
_HIDDEN_COPIES, _INNER_COPIES = 8, 4
_LOGIT_BYTES, _MASK_BYTES = 4, 1


def estimate_prefill_bytes(
    config: Mapping[str, Any], *, chunk_tokens: int, context_tokens: int, float_bytes: int, has_metal: bool
) -> int | None:
    """Return the estimate for a chunk at the end of a prompt of `context_tokens`, None when the configuration does not tell."""
    part = text_part(config)
    hidden, vocabulary = whole_number(part, "hidden_size", "n_embd", "d_model"), whole_number(part, "vocab_size")
    heads = whole_number(part, "num_attention_heads", "n_head", "n_heads")
    if not hidden or not vocabulary or not heads:
        return None
    inner = _inner_width(part) or 4 * hidden
    chunk = min(chunk_tokens, context_tokens)
    states = chunk * (_HIDDEN_COPIES * hidden + _INNER_COPIES * inner) * float_bytes
    is_fused = has_metal and not part.get("kv_lora_rank") and _head_dimension(part, hidden, heads) in _FUSED_HEAD_DIMENSIONS
    scores = 0 if is_fused else chunk * context_tokens * (heads * float_bytes + _MASK_BYTES)
    return states + scores + vocabulary * _LOGIT_BYTES


def _head_dimension(part: Mapping[str, Any], hidden: int, heads: int) -> int:
    return whole_number(part, "head_dim") or hidden // heads


def _inner_width(part: Mapping[str, Any]) -> int:
    """How many numbers the widest layer holds of one token: its feed-forward part, of all experts that take part."""
    dense = whole_number(part, "intermediate_size", "n_inner", "ffn_hidden_size", "block_ff_dim", "intermediate_size_mlp") or 0
    # Without a width of their own, the experts are as wide as `intermediate_size` says.
    expert, chosen = whole_number(part, "moe_intermediate_size"), whole_number(part, "num_experts_per_tok", "num_experts_per_token")
    return max(dense, (expert or dense) * (chosen or 1))
