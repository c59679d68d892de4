"""The memory of a conversation's KV cache, from the configuration alone.

Per token and layer: 2 × key-value heads × head dimension × bytes of a float. Latent attention stores one
compressed vector and its rotary part instead. A layer with a window stops growing at its size; a recurrent
layer never grows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlxctl.ir import KVFormat
from mlxctl.ir.kv_cache_size import KVFormats, layer_format
from mlxctl.library.encoders import is_encoder
from mlxctl.library.layer_plan import Kept, plan_layers
from mlxctl.library.text_config import text_part, whole_number

_LATENT = frozenset(
    {"deepseek_v3", "glm4_moe_lite", "joyai_llm_flash", "kimi_k2", "kimi_k25", "kimi_vl", "mistral4"}
)
_EXPANDED = frozenset({"deepseek_v2", "minicpm3"})
_SCANNED = frozenset({"mamba", "falcon_mamba"})
# Defaults of Gemma 3's code, which its configurations omit.
_USUAL = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}
# mlx-lm grows a cache in steps of this many tokens.
_STEP_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """The cache of one sequence.

    `bytes_per_token` is the cost of each token beyond the window, `window_bytes_per_token` the additional
    cost while fewer than `window_tokens` are stored. `state_bytes` is None for recurrent layers of unknown
    size.
    """

    bytes_per_token: int
    window_bytes_per_token: int = 0
    window_tokens: int = 0
    state_bytes: int | None = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is cached."""
        return not (self.bytes_per_token or self.window_tokens) and self.state_bytes == 0

    def num_bytes(self, num_tokens: int) -> int:
        """Return the memory of a sequence in bytes.

        Rounded up to the cache's growth step; a state of unknown size counts as none.
        """
        rounded = -(-num_tokens // _STEP_TOKENS) * _STEP_TOKENS
        return (
            rounded * self.bytes_per_token
            + min(rounded, self.window_tokens) * self.window_bytes_per_token
            + (self.state_bytes or 0)
        )

    def quantized(self, formats: KVFormats, *, float_bytes: int, plan: Sequence[Kept] | None) -> "CacheShape":
        """Return the shape with quantized full-attention layers; windows and states stay.

        `plan` says what each layer keeps; formats by layer need it.
        """
        if isinstance(formats, KVFormat):
            num_bytes = formats.num_bytes(self.bytes_per_token, float_bytes=float_bytes)
            return replace(self, bytes_per_token=num_bytes)
        layers = [index for index, kept in enumerate(plan or ()) if kept == "all"]
        each = self.bytes_per_token // max(len(layers), 1)
        found = [layer_format(formats, index) for index in layers]
        sizes = [each if form is None else form.num_bytes(each, float_bytes=float_bytes) for form in found]
        return replace(self, bytes_per_token=sum(sizes) if layers else self.bytes_per_token)


def find_cache_shape(model_type: str, config: Mapping[str, Any], *, float_bytes: int) -> CacheShape | None:
    """Return the cache of one sequence.

    None when the configuration lacks a size. An encoder has none: it processes a text in one pass.
    """
    if is_encoder(config):
        return CacheShape(bytes_per_token=0)
    part = text_part(config)
    if model_type == "gemma3":
        part = {**_USUAL, **part}
    plan = plan_layers(model_type, part)
    if plan is None:
        return None
    numbers = _numbers_per_token(model_type, part)
    num_all, num_window, num_state = (plan.count(kept) for kept in _KINDS)
    window = whole_number(part, "sliding_window") or 0
    if (numbers is None and num_all + num_window) or (num_window and not window):
        return None
    every, windowed = numbers or (0, 0)
    return CacheShape(
        bytes_per_token=num_all * every * float_bytes,
        window_bytes_per_token=num_window * windowed * float_bytes,
        window_tokens=window if num_window else 0,
        state_bytes=_state_bytes(model_type, part, float_bytes, num_state) if num_state else 0,
    )


_KINDS: tuple[Kept, Kept, Kept] = ("all", "window", "state")


def _numbers_per_token(model_type: str, part: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return numbers per token of full-attention and of windowed layers."""
    rotary, latent = whole_number(part, "qk_rope_head_dim"), whole_number(part, "kv_lora_rank")
    heads = whole_number(part, "num_attention_heads", "n_head", "n_heads")
    if rotary is not None and latent:
        if model_type in _LATENT:
            return latent + rotary, 0
        plain, value = whole_number(part, "qk_nope_head_dim"), whole_number(part, "v_head_dim")
        if model_type in _EXPANDED and heads and plain and value:
            return heads * (plain + rotary + value), 0
        return None
    hidden = whole_number(part, "hidden_size", "n_embd", "d_model")
    kept_heads = whole_number(part, "num_key_value_heads", "num_kv_heads") or heads
    size = whole_number(part, "head_dim") or (hidden // heads if hidden and heads else None)
    if not kept_heads or not size:
        return None
    # Gemma 4's full-attention layers have wider heads, and may have another number of them.
    wide = (whole_number(part, "global_head_dim") if model_type.startswith("gemma4") else None) or size
    few = whole_number(part, "num_global_key_value_heads") if part.get("attention_k_eq_v") is True else None
    return 2 * (few or kept_heads) * wide, 2 * kept_heads * size


def scan_state_size(model_type: str, part: Mapping[str, Any]) -> int | None:
    """Return how many numbers the scanned state of a Mamba layer has.

    None for other layers.
    """
    if model_type not in _SCANNED:
        return None
    width, depth = whole_number(part, "intermediate_size", "d_inner"), whole_number(part, "state_size")
    return width * depth if width and depth else None


def _state_bytes(model_type: str, part: Mapping[str, Any], float_bytes: int, num_layers: int) -> int | None:
    """Return the size of the states of recurrent layers.

    Gated delta networks (32 bits), short convolutions and Mamba; None for others.
    """
    scanned, width = scan_state_size(model_type, part), whole_number(part, "intermediate_size", "d_inner")
    if scanned and width:
        convolved = ((whole_number(part, "conv_kernel", "d_conv") or 1) - 1) * width
        return num_layers * (scanned + convolved) * float_bytes
    heads, key_heads = (
        whole_number(part, "linear_num_value_heads"),
        whole_number(part, "linear_num_key_heads"),
    )
    value, key = whole_number(part, "linear_value_head_dim"), whole_number(part, "linear_key_head_dim")
    kernel = whole_number(part, "linear_conv_kernel_dim")
    if heads and key_heads and value and key and kernel:
        return num_layers * (
            (kernel - 1) * (2 * key_heads * key + heads * value) * float_bytes + heads * value * key * 4
        )
    width, hidden = whole_number(part, "conv_L_cache"), whole_number(part, "hidden_size")
    return num_layers * (width - 1) * hidden * float_bytes if width and hidden else None
