"""Estimates of memory, longest context and maximum speed of a model.

Nothing is measured. Memory = weights + KV cache of one conversation + its copy in the prefix cache +
estimated prefill memory. Where that is more than the limit, the engine drops the copy and computes smaller
passes: a conversation fits, and is the longest one, by ConversationSize, as in the engine. Speed: every
decoded token reads the active weights and the whole cache once, so tokens per second cannot exceed `bandwidth
/ (decode bytes + cache bytes)`; real speed stays below it. It must always be called a prediction.
"""

from dataclasses import dataclass

from mlxctl.ir.conversation_size import PREFIX_CACHE_SHARE, ConversationSize, cache_capacity
from mlxctl.library.apple_chips import CHIPS
from mlxctl.library.description import ModelDescription
from mlxctl.library.encoders import is_encoder
from mlxctl.library.layer_plan import plan_layers
from mlxctl.library.machine import GIB, Machine, recommended_share
from mlxctl.library.prefill_memory import estimate_prefill_bytes, estimate_prompt_bytes, pass_memory
from mlxctl.library.text_config import text_part, whole_number
from mlxctl.state.stores import MeasuredSpeed

SPEED_FORMULA = (
    "predicted tokens/s (at most) = memory bandwidth / (weight bytes read per token + cache bytes at this "
    "context)"
)
DEFAULT_CONTEXT_TOKENS = 8192
# Measured with mlx_lm and SmolLM2-135M on 2 cores (x86, Linux VM) beside other load: a token took 0.46 s in
# 32 bits, 0.60 in bfloat16, 3.6 in 4 and 3.4 in 8 bits, a prompt of 32 tokens 10, 5, 93 and 91 s.
CPU_MAX_PARAMETERS = 1_000_000_000
SLOW_QUANTIZED = "MLX's CPU backend takes seconds for a token with quantized weights"
SLOW_LARGE = "a CPU is too slow for more than 1B parameters"
DEFAULT_CHUNK_TOKENS = 2048
_WITHOUT_DECODING = ("embeddings", "speech-to-text", "alignment", "diarization")
# An upper bound, not measured. Whisper large, the largest model, keeps 0.25 GB for a window of 30 seconds,
# and the scores of a layer of its encoder have 0.2 GB.
_WINDOW_BYTES = 512 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How a model fits a machine at `context_tokens`.

    `cache_bytes` include room for the answer and the next turn, `prefix_bytes` are the conversation's copy in
    the prefix cache, `transient_bytes` those of the largest prefill pass.
    Unknown values are None; `max_context_tokens` is 0 if not even one token fits. `is_capped_by_model`: the
    model's context length is the limit, not the memory. `typical_context_tokens` is the longest context up to
    DEFAULT_CONTEXT_TOKENS that fits. `measured` is a stored measurement, which is more than the predictions.
    An audio model has no context: its cache is that of one request.
    `slow_because` is why the machine is too slow for the model, None where it is not, or nothing is known.
    """

    machine: Machine
    context_tokens: int
    weights_bytes: int
    cache_bytes: int | None
    prefix_bytes: int | None
    transient_bytes: int | None
    fits: bool | None
    max_context_tokens: int | None
    is_capped_by_model: bool
    predicted_tokens_per_second: float | None
    typical_context_tokens: int
    typical_predicted_tokens_per_second: float | None
    measured: MeasuredSpeed | None = None
    slow_because: str | None = None

    @property
    def typical_tokens_per_second(self) -> float | None:
        """The measured speed, else the prediction at `typical_context_tokens`."""
        if self.measured is not None:
            return self.measured.decode_tokens_per_second
        return self.typical_predicted_tokens_per_second

    @property
    def needed_bytes(self) -> int | None:
        """The memory that the engine takes, None while a part is unknown.

        At most the usable memory if the conversation fits: then the engine drops and shrinks what it can.
        """
        if self.cache_bytes is None or self.transient_bytes is None or self.prefix_bytes is None:
            return None
        total = self.weights_bytes + self.cache_bytes + self.prefix_bytes + self.transient_bytes
        return min(total, self.machine.usable_bytes) if self.fits else total


def fit_model(
    model: ModelDescription,
    machine: Machine,
    *,
    context_tokens: int | None = None,
    chunk_tokens: int = DEFAULT_CHUNK_TOKENS,
) -> Fit | None:
    """Return the fit; None for a model whose weights cannot be read.

    The default context is DEFAULT_CONTEXT_TOKENS, or the model's if that is shorter.
    """
    if model.weights is None:
        return None
    default_context = min(DEFAULT_CONTEXT_TOKENS, model.context_length or DEFAULT_CONTEXT_TOKENS)
    context = context_tokens or default_context
    transient = _transient_bytes(model, machine, chunk_tokens=chunk_tokens, context_tokens=context)
    weights = model.weights.num_bytes
    room = machine.usable_bytes - weights
    alone = _conversation(model, machine)
    longest = _longest(model, machine, room, alone)
    typical = default_context if longest is None else min(default_context, longest)
    if model.speech is not None:
        return _fit_audio(model, machine, request_bytes=model.speech.request_bytes)
    if model.transcription is not None:
        return _fit_audio(model, machine, request_bytes=_WINDOW_BYTES)
    is_text = not is_encoder(model.config)
    # An encoder keeps nothing, and computes a text in one pass.
    least = alone.needed_bytes(context) if alone is not None else (None if is_text else transient)
    prefix = int(machine.usable_bytes * PREFIX_CACHE_SHARE) if is_text else 0
    return Fit(
        machine=machine,
        context_tokens=context,
        weights_bytes=weights,
        cache_bytes=model.cache.num_bytes(cache_capacity(context) if is_text else 0) if model.cache else None,
        prefix_bytes=min(prefix, model.cache.num_bytes(context)) if model.cache else None,
        transient_bytes=transient,
        fits=_fits(room, least),
        max_context_tokens=longest,
        is_capped_by_model=longest is not None and longest == model.context_length,
        predicted_tokens_per_second=_speed(model, context, machine),
        typical_context_tokens=typical,
        typical_predicted_tokens_per_second=_speed(model, typical, machine) if typical else None,
        slow_because=_slow_because(model, machine) if is_text else None,
    )


def _fit_audio(model: ModelDescription, machine: Machine, *, request_bytes: int) -> Fit:
    """Return the fit of a speech or transcription model with one request."""
    assert model.weights is not None, "its weights were read"
    weights = model.weights.num_bytes
    return Fit(
        machine=machine,
        context_tokens=0,
        weights_bytes=weights,
        cache_bytes=request_bytes,
        prefix_bytes=0,
        transient_bytes=0,
        fits=weights + request_bytes <= machine.usable_bytes,
        max_context_tokens=None,
        is_capped_by_model=False,
        predicted_tokens_per_second=None,
        typical_context_tokens=0,
        typical_predicted_tokens_per_second=None,
        slow_because=_slow_because(model, machine),
    )


def fit_on_macs(
    model: ModelDescription, *, context_tokens: int | None = None, chunk_tokens: int = DEFAULT_CHUNK_TOKENS
) -> list[Fit]:
    """Return the fit for every chip and memory size in the table."""
    macs = [
        Machine(
            chip=f"Apple {chip.name}" + (f" ({chip.num_gpu_cores}-core GPU)" if chip.num_gpu_cores else ""),
            memory_bytes=size * GIB,
            usable_bytes=int(size * GIB * recommended_share(size * GIB)),
            is_exact=False,
            has_metal=True,
            bandwidth_bytes_per_second=chip.bandwidth_gb_per_second * 1e9,
        )
        for chip in CHIPS
        for size in chip.memory_gib
    ]
    fits = (fit_model(model, mac, context_tokens=context_tokens, chunk_tokens=chunk_tokens) for mac in macs)
    return [fit for fit in fits if fit is not None]


def _slow_because(model: ModelDescription, machine: Machine) -> str | None:
    if not machine.computes_on_cpu:
        return None
    if model.quantization is not None:
        return SLOW_QUANTIZED
    is_large = model.weights is not None and model.weights.num_parameters > CPU_MAX_PARAMETERS
    return SLOW_LARGE if is_large else None


def _fits(room_bytes: int, needed_bytes: int | None) -> bool | None:
    if room_bytes < 0:
        return False
    return None if needed_bytes is None else needed_bytes <= room_bytes


def _conversation(model: ModelDescription, machine: Machine) -> ConversationSize | None:
    """Return the least memory of a conversation, as the engine measures it.

    None for an encoder, and when the configuration lacks a size.
    """
    cache, weights = model.cache, model.weights
    if cache is None or weights is None or is_encoder(model.config):
        return None
    memory = pass_memory(
        model.config,
        weights_bytes=weights.num_bytes,
        float_bytes=weights.float_bytes or 2,
        has_metal=machine.has_metal,
        is_fused=not model.has_quantized_cache,
    )
    if memory is None:
        return None
    part = text_part(model.config)
    plan = plan_layers(model.model_type or "", part) or ()
    num_growing = plan.count("all") or whole_number(part, "num_hidden_layers", "n_layer", "n_layers") or 1
    return ConversationSize.of(
        bytes_per_token=cache.bytes_per_token + cache.window_bytes_per_token,
        windows=[(cache.window_tokens, cache.window_bytes_per_token)] if cache.window_tokens else [],
        state_bytes=cache.state_bytes or 0,
        layer_bytes_per_token=cache.bytes_per_token // num_growing,
        vocabulary_size=whole_number(part, "vocab_size") or 0,
        memory=memory,
    )


def _longest(
    model: ModelDescription, machine: Machine, room_bytes: int, alone: ConversationSize | None
) -> int | None:
    """Return the longest context that fits into `room_bytes`, by bisection for encoders.

    The needed memory never shrinks with the length.
    """
    if model.cache is None or model.context_length is None:
        return None
    if alone is not None:
        return min(model.context_length, alone.tokens_within(room_bytes)) if room_bytes >= 0 else 0
    low, high = 0, model.context_length
    while low < high:
        middle = (low + high + 1) // 2
        moment = _transient_bytes(model, machine, chunk_tokens=middle, context_tokens=middle)
        if moment is None:
            return None
        if moment <= room_bytes:
            low = middle
        else:
            high = middle - 1
    return low


def _speed(model: ModelDescription, context_tokens: int, machine: Machine) -> float | None:
    writes = model.embedding is None and model.detection.kind not in _WITHOUT_DECODING
    read = model.weights.decode_bytes if model.weights and writes else None
    if machine.bandwidth_bytes_per_second is None or not read or model.cache is None:
        return None
    return machine.bandwidth_bytes_per_second / (read + model.cache.num_bytes(context_tokens))


def _transient_bytes(
    model: ModelDescription, machine: Machine, *, chunk_tokens: int, context_tokens: int
) -> int | None:
    float_bytes = (model.weights.float_bytes if model.weights else None) or 2
    if is_encoder(model.config):
        # An encoder processes a text in one pass.
        return estimate_prefill_bytes(
            model.config,
            chunk_tokens=context_tokens,
            context_tokens=context_tokens,
            float_bytes=float_bytes,
            has_metal=machine.has_metal,
        )
    return estimate_prompt_bytes(
        model.config,
        weights_bytes=model.weights.num_bytes if model.weights else 0,
        chunk_max_tokens=chunk_tokens,
        context_tokens=context_tokens,
        float_bytes=float_bytes,
        has_metal=machine.has_metal,
        # Attention over quantized keys is never fused: all scores are in memory.
        is_fused=not model.has_quantized_cache,
        room_bytes=machine.usable_bytes - model.weights.num_bytes if model.weights else None,
    )
