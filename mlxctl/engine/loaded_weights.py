"""A loaded model with its measurements. MLX thread only."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlxctl.engine.wire.reports import CacheKind
from mlxctl.ir.conversation_size import ConversationSize
from mlxctl.ir.kv_cache_size import KVPrecision, KVWindow
from mlxctl.ir.pass_memory import UNBOUNDED_PASSES, PassMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWeights:
    """A loaded model and its measurements.

    `model` must stay on the MLX thread. `create_caches` returns empty caches of a sequence, one per layer,
    quantized to `kv_bits`; `kv_windows` are those of its layers with sliding windows, `state_bytes` those of
    a row's recurrent states; its largest growing layer takes `layer_bytes_per_token`. `can_pad_prompts` is
    False where padding would change the state of recurrent layers, `can_reuse` where prefixes cannot be
    restored; `cache_limits` says in words what is not used. `dimensions` is the length of an embedding
    model's vectors. `model` is a VisionLanguageModel if it takes images or audio; `encoder_problem` is why
    its encoders of these could not be loaded. `draft_model` and `mtp_head` are None without one; their
    weights and their keys and values are included in the sizes. `state_recorder` records the model's final
    hidden states for the head. An `is_sharded` model is this rank's share; its sizes are those of the rank.
    """

    model: Any
    vocabulary_size: int
    weights_bytes: int
    kv_bytes_per_token: int
    cache_kind: CacheKind
    can_batch: bool
    load_seconds: float
    can_pad_prompts: bool = True
    can_reuse: bool = True
    cache_limits: str | None = None
    create_caches: Callable[[], list[Any]] = list
    kv_bits: KVPrecision = None
    kv_windows: tuple[KVWindow, ...] = ()
    state_bytes: int = 0
    layer_bytes_per_token: int = 0
    pass_memory: PassMemory = UNBOUNDED_PASSES
    dimensions: int | None = None
    encoder_problem: str | None = None
    draft_model: Any = None
    mtp_head: Any = None
    state_recorder: Any = None
    is_sharded: bool = False

    @property
    def conversation(self) -> ConversationSize:
        """The least memory of a conversation."""
        return ConversationSize.of(
            bytes_per_token=self.kv_bytes_per_token,
            windows=self.kv_windows,
            state_bytes=self.state_bytes,
            layer_bytes_per_token=self.layer_bytes_per_token,
            vocabulary_size=self.vocabulary_size,
            memory=self.pass_memory,
        )
