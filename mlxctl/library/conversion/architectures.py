"""Architectures of GGUF files, as mlx-lm configures and names them.

Names of metadata and tensors, and what a converter changes in the weights: `gguf-py` and `conversion` of the
llama.cpp repository. Configurations: the model classes of mlx-lm.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from mlxctl.library.conversion.gguf_blocks import Floats
from mlxctl.library.conversion.gguf_file import GgufFile, GgufTensor

_MAX_LAYERS = 1000
_MAX_SIZE = 1 << 24
# Gemma's wide vocabulary included.
_MAX_VOCABULARY = 4_000_000
# Llama 3.1 and later scale their frequencies for contexts above this one; converters know no other.
_LLAMA3_CONTEXT, _LLAMA3_LOW, _LLAMA3_HIGH = 8192, 1.0, 4.0
# The largest Gemma 2 and 3 scale queries by the width of the model; others by that of a head.
_GEMMA_27B_LAYERS: Final = {"gemma2": 46, "gemma3": 62}
_VISION_TENSORS = re.compile(r"(v|mm)\..*")

RowOrder = Literal["rope pairs"]
"""Rows of a head: both halves, or as llama.cpp rotates them, in turn one of each half."""


class PlannedTensor(NamedTuple):
    """A tensor to import.

    `name` is that of mlx-lm. `row_unit` rows must be read together; they are in `order`. `shift` is added.
    """

    source: GgufTensor
    name: str
    row_unit: int = 1
    order: RowOrder | None = None
    shift: float = 0.0


class ModelPlan(NamedTuple):
    """The content of config.json, the tensors, and what the user should know."""

    config: dict[str, Any]
    tensors: list[PlannedTensor]
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Architecture:
    model_type: str
    class_name: str
    has_rope_pairs: bool = False
    has_query_bias: bool = False
    has_head_norms: bool = False
    is_gemma: bool = False
    has_four_norms: bool = False
    rope_base: float = 10_000.0
    rope_scaling: tuple[str, ...] = ()


ARCHITECTURES: Final = {
    "llama": _Architecture(
        model_type="llama",
        class_name="LlamaForCausalLM",
        has_rope_pairs=True,
        rope_scaling=("linear", "yarn"),
    ),
    "qwen2": _Architecture(
        model_type="qwen2",
        class_name="Qwen2ForCausalLM",
        has_query_bias=True,
        rope_scaling=("linear", "yarn"),
    ),
    "qwen3": _Architecture(
        model_type="qwen3",
        class_name="Qwen3ForCausalLM",
        has_head_norms=True,
        rope_scaling=("linear", "yarn"),
    ),
    "gemma": _Architecture(model_type="gemma", class_name="GemmaForCausalLM", is_gemma=True),
    "gemma2": _Architecture(
        model_type="gemma2", class_name="Gemma2ForCausalLM", is_gemma=True, has_four_norms=True
    ),
    "gemma3": _Architecture(
        model_type="gemma3_text",
        class_name="Gemma3ForCausalLM",
        is_gemma=True,
        has_four_norms=True,
        has_head_norms=True,
        rope_base=1_000_000.0,
        rope_scaling=("linear",),
    ),
}


def plan_model(file: GgufFile, read_vector: Callable[[GgufTensor], Floats]) -> ModelPlan:
    """Return the configuration and the tensors of a file's model.

    `read_vector` reads a small tensor. Raises ConversionFailed for what is not supported, missing, or not of
    the declared shape.
    """
    _refuse_other_files(file)
    name = file.text("general.architecture")
    if name not in ARCHITECTURES:
        raise file.wrong(
            f"the architecture {name!r} is not supported; supported are {', '.join(ARCHITECTURES)}"
        )
    return _Planner(file, name, ARCHITECTURES[name], read_vector).plan()


def _refuse_other_files(file: GgufFile) -> None:
    """Raise ConversionFailed for a file that is no whole text model."""
    kind = file.text("general.type", "model")
    if kind == "mmproj" or file.metadata.get("general.architecture") == "clip":
        raise file.wrong("it is a projector of images or sound (mmproj)")
    if kind != "model":
        raise file.wrong(f"it has the general.type {kind!r}, and only whole models can be imported")
    if not file.tensors:
        raise file.wrong("it has no weights")


class _Planner:
    """Reads one file's facts; keys of metadata begin with the architecture's name."""

    def __init__(
        self,
        file: GgufFile,
        name: str,
        architecture: _Architecture,
        read_vector: Callable[[GgufTensor], Floats],
    ) -> None:
        self._file, self._name, self._architecture = file, name, architecture
        self._read_vector = read_vector
        self._refuse_variants()
        size = self._integer
        self._hidden = size("embedding_length")
        self._inner = size("feed_forward_length")
        self._num_layers = size("block_count", most=_MAX_LAYERS)
        self._num_heads = size("attention.head_count")
        self._num_kv_heads = size("attention.head_count_kv", self._num_heads)
        self._head_dim = size("attention.key_length", max(1, self._hidden // self._num_heads))
        self._vocabulary = self._tensor("token_embd.weight").num_rows
        self._is_tied = "output.weight" not in file.tensors
        self._has_vision = any(map(_VISION_TENSORS.fullmatch, file.tensors))
        self._notes: list[str] = []
        self._check_sizes()

    def plan(self) -> ModelPlan:
        tensors = list(self._tensors())
        known = {tensor.source.name for tensor in tensors} | {"rope_freqs.weight"}
        unknown = [name for name in self._file.tensors if name not in known]
        if self._has_vision and self._name == "gemma3":
            unknown = [name for name in unknown if not _VISION_TENSORS.fullmatch(name)]
            self._notes.append("the part for images is left out")
        if unknown:
            raise self._file.wrong(
                f"the tensor {unknown[0]!r} is not one of a {self._name} model"
                + (f", nor are {len(unknown) - 1} others" if unknown[1:] else "")
            )
        return ModelPlan(self._config(), tensors, self._notes)

    def _refuse_variants(self) -> None:
        """Raise ConversionFailed for what mlx-lm's class of this name does not compute."""
        if self._integer("expert_count", 0, least=0):
            raise self._file.wrong(f"{self._name} models with experts are not supported")
        if self._integer("pooling_type", 0, least=0) or not self._file.flag(
            f"{self._name}.attention.causal", True
        ):
            raise self._file.wrong("it is an embedding model; only models that generate text can be imported")
        for key in ("attention.scale", "logit_scale", "embedding_scale", "residual_scale"):
            if f"{self._name}.{key}" in self._file.metadata:
                raise self._file.wrong(f"{self._name}.{key} is not supported")

    def _check_sizes(self) -> None:
        if self._integer("attention.value_length", self._head_dim) != self._head_dim:
            raise self._file.wrong("keys and values of different lengths are not supported")
        if self._integer("rope.dimension_count", self._head_dim) != self._head_dim:
            raise self._file.wrong("rotary embeddings of a part of each head are not supported")
        if self._head_dim % 2 or self._num_heads % self._num_kv_heads:
            raise self._file.wrong("its numbers of heads and their length do not fit together")
        if self._name == "qwen2" and self._head_dim * self._num_heads != self._hidden:
            raise self._file.wrong("qwen2 models with heads of another length are not supported")
        if self._vocabulary > _MAX_VOCABULARY:
            raise self._file.wrong(f"a vocabulary of {self._vocabulary:,} is not supported")

    def _integer(self, key: str, default: int | None = None, *, least: int = 1, most: int = _MAX_SIZE) -> int:
        return self._file.integer(f"{self._name}.{key}", default, least=least, most=most)

    def _number(self, key: str, default: float | None = None) -> float:
        return self._file.number(f"{self._name}.{key}", default)

    def _tensor(self, name: str) -> GgufTensor:
        if name not in self._file.tensors:
            raise self._file.wrong(f"the tensor {name!r} is missing")
        return self._file.tensors[name]

    def _tensors(self) -> Iterator[PlannedTensor]:
        hidden = self._hidden
        yield self._planned("token_embd.weight", "model.embed_tokens.weight", (self._vocabulary, hidden))
        for layer in range(self._num_layers):
            yield from self._layer(f"blk.{layer}.", f"model.layers.{layer}.")
        yield self._norm("output_norm.weight", "model.norm.weight", hidden)
        if not self._is_tied:
            yield self._planned("output.weight", "lm_head.weight", (self._vocabulary, hidden))

    def _layer(self, old: str, new: str) -> Iterator[PlannedTensor]:
        hidden, inner = self._hidden, self._inner
        queries, keys = self._num_heads * self._head_dim, self._num_kv_heads * self._head_dim
        order: RowOrder | None = "rope pairs" if self._architecture.has_rope_pairs else None
        attention, mlp = f"{new}self_attn.", f"{new}mlp."
        matrices = [
            ("attn_q", f"{attention}q_proj", (queries, hidden), order),
            ("attn_k", f"{attention}k_proj", (keys, hidden), order),
            ("attn_v", f"{attention}v_proj", (keys, hidden), None),
            ("attn_output", f"{attention}o_proj", (hidden, queries), None),
            ("ffn_gate", f"{mlp}gate_proj", (inner, hidden), None),
            ("ffn_up", f"{mlp}up_proj", (inner, hidden), None),
            ("ffn_down", f"{mlp}down_proj", (hidden, inner), None),
        ]
        biased = self._biased()
        for part, name, shape, rows in matrices:
            yield self._planned(f"{old}{part}.weight", f"{name}.weight", shape, rows)
            if part in biased:
                yield self._planned(f"{old}{part}.bias", f"{name}.bias", shape[:1], rows)
        yield self._norm(f"{old}attn_norm.weight", f"{new}input_layernorm.weight", hidden)
        if self._architecture.has_four_norms:
            yield self._norm(
                f"{old}post_attention_norm.weight", f"{new}post_attention_layernorm.weight", hidden
            )
            yield self._norm(f"{old}ffn_norm.weight", f"{new}pre_feedforward_layernorm.weight", hidden)
            yield self._norm(f"{old}post_ffw_norm.weight", f"{new}post_feedforward_layernorm.weight", hidden)
        else:
            yield self._norm(f"{old}ffn_norm.weight", f"{new}post_attention_layernorm.weight", hidden)
        if self._architecture.has_head_norms:
            yield self._norm(f"{old}attn_q_norm.weight", f"{attention}q_norm.weight", self._head_dim)
            yield self._norm(f"{old}attn_k_norm.weight", f"{attention}k_norm.weight", self._head_dim)

    def _biased(self) -> tuple[str, ...]:
        """Return the matrices with a bias.

        In a llama model those that the file has.
        """
        if self._architecture.has_query_bias:
            return ("attn_q", "attn_k", "attn_v")
        if self._name != "llama":
            return ()
        found = self._file.tensors
        attention = ("attn_q", "attn_k", "attn_v", "attn_output") if "blk.0.attn_q.bias" in found else ()
        return (*attention, *(("ffn_gate", "ffn_up", "ffn_down") if "blk.0.ffn_up.bias" in found else ()))

    def _norm(self, old: str, new: str, size: int) -> PlannedTensor:
        # Converters add the one that mlx-lm's Gemma adds.
        shift = -1.0 if self._architecture.is_gemma else 0.0
        return self._planned(old, new, (size,))._replace(shift=shift)

    def _planned(
        self, old: str, new: str, shape: tuple[int, ...], order: RowOrder | None = None
    ) -> PlannedTensor:
        tensor = self._tensor(old)
        if tensor.shape != shape:
            raise self._file.wrong(
                f"the tensor {old!r} has the shape {list(tensor.shape)}, and must have {list(shape)}"
            )
        return PlannedTensor(tensor, new, row_unit=self._head_dim if order else 1, order=order)

    def _config(self) -> dict[str, Any]:
        architecture = self._architecture
        config = {
            "architectures": [architecture.class_name],
            "model_type": architecture.model_type,
            "hidden_size": self._hidden,
            "intermediate_size": self._inner,
            "num_hidden_layers": self._num_layers,
            "num_attention_heads": self._num_heads,
            "num_key_value_heads": self._num_kv_heads,
            "head_dim": self._head_dim,
            "rms_norm_eps": self._number("attention.layer_norm_rms_epsilon"),
            "rope_theta": self._rope_base(),
            "max_position_embeddings": self._integer("context_length"),
            "vocab_size": self._vocabulary,
            "tie_word_embeddings": self._is_tied,
        }
        biased = self._biased()
        if self._name == "llama":
            config |= {"attention_bias": "attn_q" in biased, "mlp_bias": "ffn_up" in biased}
        if (scaling := self._rope_scaling()) is not None:
            config["rope_scaling"] = scaling
        return config | self._gemma_config()

    def _gemma_config(self) -> dict[str, Any]:
        if self._name not in _GEMMA_27B_LAYERS:
            return {}
        is_27b = self._num_layers == _GEMMA_27B_LAYERS[self._name]
        config = {"query_pre_attn_scalar": self._hidden // self._num_heads if is_27b else self._head_dim}
        if self._name == "gemma2":
            return config | {
                "attn_logit_softcapping": self._number("attn_logit_softcapping", 50.0),
                "final_logit_softcapping": self._number("final_logit_softcapping", 30.0),
                "sliding_window": self._integer("attention.sliding_window", 4096),
            }
        if "gemma3.final_logit_softcapping" in self._file.metadata:
            self._notes.append("final_logit_softcapping is left out: mlx-lm computes Gemma 3 without it")
        has_window = "gemma3.attention.sliding_window" in self._file.metadata
        return config | {
            "rope_local_base_freq": self._number(
                "rope.local.freq_base", self._number("rope.freq_base_swa", 10_000.0)
            ),
            "sliding_window": self._integer("attention.sliding_window", 4096),
            "sliding_window_pattern": self._integer("attention.sliding_window_pattern", 6)
            if has_window
            else 1,
        }

    def _rope_base(self) -> float:
        # Ollama's name for it in Gemma 3.
        other = self._number("rope.global.freq_base", self._architecture.rope_base)
        return self._number("rope.freq_base", other)

    def _rope_scaling(self) -> dict[str, Any] | None:
        """Return the scaling of rotary embeddings. Raises ConversionFailed."""
        if "rope_freqs.weight" in self._file.tensors:
            return self._llama3_scaling(self._tensor("rope_freqs.weight"))
        kind = self._file.text(f"{self._name}.rope.scaling.type", "none")
        if f"{self._name}.rope.scale_linear" in self._file.metadata:
            kind = "linear"
        if kind == "none":
            # Ollama's own files of Gemma 3 do not name the scaling of all models with a part for images.
            return (
                {"rope_type": "linear", "factor": 8.0}
                if self._has_vision and self._name == "gemma3"
                else None
            )
        if kind not in self._architecture.rope_scaling:
            raise self._file.wrong(
                f"rotary embeddings with {kind!r} scaling are not supported for {self._name}"
            )
        factor = self._number("rope.scaling.factor", self._number("rope.scale_linear", 0.0))
        if factor <= 0:
            raise self._file.wrong(f"{self._name}.rope.scaling.factor must be above 0")
        if kind == "linear":
            return {"rope_type": "linear", "factor": factor}
        for key in ("yarn_log_multiplier", "yarn_attn_factor", "attn_factor"):
            if self._number(f"rope.scaling.{key}", 1.0) != 1.0:
                raise self._file.wrong(f"{self._name}.rope.scaling.{key} is not supported")
        return {
            "rope_type": "yarn",
            "factor": factor,
            "original_max_position_embeddings": self._integer("rope.scaling.original_context_length"),
            "beta_fast": self._number("rope.scaling.yarn_beta_fast", 32.0),
            "beta_slow": self._number("rope.scaling.yarn_beta_slow", 1.0),
        }

    def _llama3_scaling(self, tensor: GgufTensor) -> dict[str, Any] | None:
        """Return Llama 3's scaling if it yields the factors of the file."""
        if self._name != "llama" or tensor.shape != (self._head_dim // 2,):
            raise self._file.wrong("rope_freqs.weight is not supported for this model")
        factors: Floats = self._read_vector(tensor)
        factor = float(factors.max())
        exponents = np.arange(0, self._head_dim, 2) / self._head_dim
        periods = _LLAMA3_CONTEXT / (2 * np.pi * self._rope_base() ** exponents)
        smooth = np.clip((periods - _LLAMA3_LOW) / (_LLAMA3_HIGH - _LLAMA3_LOW), 0, 1)
        if not factor >= 1 or not np.allclose(factors, 1 / ((1 - smooth) / factor + smooth), rtol=1e-3):
            raise self._file.wrong("rope_freqs.weight has other factors than those of Llama 3")
        if factor == 1:
            return None
        return {
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": _LLAMA3_LOW,
            "high_freq_factor": _LLAMA3_HIGH,
            "original_max_position_embeddings": _LLAMA3_CONTEXT,
        }
