"""MTP head of Qwen3.5 checkpoints: predicts one more token than the model.

The head is a decoder layer with full attention. It shares embeddings and output head with the model, and
predicts the token after the next one from a token's final hidden state and the embedding of the next token
(multi-token prediction, DeepSeek-V3 2024). mlx-lm drops its weights. MLX thread only.
"""

from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import KVCache
from mlx_lm.models.qwen3_5 import DecoderLayer, TextModel

from mlxctl.engine.loading.loader import import_mlx_lm, read_weights
from mlxctl.library.mtp_heads import find_mtp_tensors

_EXPERTS = "mlp.experts."


class MtpHead(nn.Module):  # type: ignore[misc]
    """The layers of an MTP head, without embeddings and output head."""

    def __init__(self, args: Any, *, num_layers: int) -> None:
        """`args` are mlx-lm's of the text model."""
        super().__init__()
        width, epsilon = args.hidden_size, args.rms_norm_eps
        # Every layer of the head has full attention.
        args = replace(args, full_attention_interval=1)
        self.pre_fc_norm_embedding = nn.RMSNorm(width, eps=epsilon)
        self.pre_fc_norm_hidden = nn.RMSNorm(width, eps=epsilon)
        self.fc = nn.Linear(2 * width, width, bias=False)
        self.layers = [DecoderLayer(args, index) for index in range(num_layers)]
        self.norm = nn.RMSNorm(width, eps=epsilon)

    def __call__(self, states: mx.array, embeddings: mx.array, caches: list[Any]) -> mx.array:
        """Return the head's states (B, n, width), for the output head.

        `states` (B, n, width) are the final hidden states of n tokens, `embeddings` those of the tokens after
        them.
        """
        joined = [self.pre_fc_norm_embedding(embeddings), self.pre_fc_norm_hidden(states)]
        x = self.fc(mx.concatenate(joined, axis=-1))
        mask = create_attention_mask(x, caches[0])
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, mask=mask, cache=cache)
        normed: mx.array = self.norm(x)
        return normed

    def new_caches(self) -> list[KVCache]:
        """Return empty caches of one row."""
        return [KVCache() for _ in self.layers]

    def measure(self) -> list[KVCache]:
        """Return caches after a pass over one token."""
        caches, width = self.new_caches(), self.norm.weight.shape[0]
        token = mx.zeros((1, 1, width), dtype=self.norm.weight.dtype)
        mx.eval(self(token, token, caches), [cache.state for cache in caches])
        return caches


class StateRecorder:
    """Holds the output of a model's last norm until the next pass."""

    def __init__(self) -> None:
        self._states: mx.array | None = None

    def attach(self, model: Any) -> None:
        """Replace the last norm of mlx-lm's `model` by one that records."""
        norm = _RecordedNorm(model.norm.weight.shape[0], eps=model.norm.eps)
        norm.weight, norm.recorder = model.norm.weight, self
        model.norm = norm

    def record(self, states: mx.array) -> None:
        """Hold the output (rows, tokens, width) of a pass."""
        self._states = states

    def take(self) -> mx.array | None:
        """Return the output (rows, tokens, width) of the last pass, once."""
        states, self._states = self._states, None
        return states


class _RecordedNorm(nn.RMSNorm):  # type: ignore[misc]
    recorder: StateRecorder

    def __call__(self, x: mx.array) -> mx.array:
        states: mx.array = super().__call__(x)
        self.recorder.record(states)
        return states


def load_mtp_head(model: Any, path: Path) -> Generator[int, None, MtpHead]:
    """Load a model's head, from its checkpoint or another directory.

    Yields the number of bytes read so far. Raises ValueError for another architecture, and for missing or
    unknown tensors.
    """
    text_model = getattr(model, "language_model", None)
    if not isinstance(text_model, TextModel):
        message = f"MTP heads of {type(model).__name__} are not supported"
        raise ValueError(message)  # noqa: TRY004 -- what a damaged checkpoint raises, too
    found = find_mtp_tensors(path)
    weights: dict[str, mx.array] = {}
    for file in found.files:
        loaded: Any = mx.load(str(file))
        weights |= {found.names[name]: array for name, array in loaded.items() if name in found.names}
    weights = _stacked_experts(weights)
    if found.has_zero_centered_norms:
        weights = {name: array + 1.0 if array.ndim == 1 else array for name, array in weights.items()}
    num_layers = len({name.split(".")[1] for name in weights if name.startswith("layers.")})
    head = MtpHead(text_model.args, num_layers=num_layers)
    infer = import_mlx_lm().infer_quant_config
    nn.quantize(
        head,
        class_predicate=lambda name, module: (
            infer(name, module, weights) if f"{name}.scales" in weights else False
        ),
    )
    head.load_weights(list(weights.items()))
    head.eval()
    yield from read_weights(head)
    return head


def _stacked_experts(weights: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Return the weights with experts as mlx-lm names them.

    Checkpoints have one matrix for each expert, or `gate_up_proj` and `down_proj` of all experts.
    """
    stacked = {name: array for name, array in weights.items() if _EXPERTS not in name}
    single: dict[str, dict[int, mx.array]] = {}
    for name, array in weights.items():
        before, found, rest = name.partition(_EXPERTS)
        if not found:
            continue
        target = f"{before}mlp.switch_mlp."
        if rest == "gate_up_proj":
            gate, up = mx.split(array, 2, axis=-2)
            stacked |= {f"{target}gate_proj.weight": gate, f"{target}up_proj.weight": up}
        elif rest == "down_proj":
            stacked[f"{target}down_proj.weight"] = array
        else:
            number, _, kind = rest.partition(".")
            single.setdefault(target + kind, {})[int(number)] = array
    for name, experts in single.items():
        stacked[name] = mx.stack([experts[number] for number in sorted(experts)])
    return stacked
