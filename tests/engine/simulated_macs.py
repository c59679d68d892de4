"""Macs and models as machines of the simulation, from published figures.

Nothing here was measured by the project. Memory and bandwidth are those of `mlxctl.library.apple_chips`.

- Prefill: `_PROMPT_SPEED` are tokens/s of LLaMA 7B (6.74e9 parameters, Q4_0, 3.83 GiB) for a prompt of 512
  tokens, as published in llama.cpp's discussion 4167 for M1 to M4 and the M3 Ultra, and in its pull request
  16634 for the M5 of 10 cores. M5 Pro and Max are scaled from that by their GPU cores: an estimate.
  Those of M1 to M4 are quoted from memory, and only single ones were compared with other sources.
- A decode step reads the active weights once, at the published bandwidth, and takes `_LAYER_SECONDS` more for
  each layer. With that and a row's computation, 1 / step is within 20 % of the speeds that are published for
  the 7B model (tests/engine/test_simulation.py).
- A pass reads the weights as well. Its tokens take the rest of the published time, in proportion to the
  active parameters: so a pass of 512 tokens of the 7B model takes as long as published.
- A row of a decode step takes twice the time of a token of a pass: small matrices keep the GPU less busy. An
  estimate, as is `_EXPERT_EFFICIENCY`: experts compute few tokens each.
- Attention: 4 * layers * width of the queries operations for each pair of tokens, at the same rate as the
  2 * parameters of the rest. Reading a cache takes its bytes over the bandwidth; a join reads and writes it.
- A turn of some layers takes `_TURN_SECONDS` more: an estimate of one synchronization.
- The M5 Ultra is no product that Apple has specified: two M5 Max, an estimate.
"""

from dataclasses import dataclass
from functools import cached_property

from mlxctl.engine.scheduling.model_queue import ModelCosts
from mlxctl.library.apple_chips import CHIPS, Chip
from mlxctl.library.machine import GIB, recommended_share
from mlxctl.library.recommendations import CatalogEntry, read_catalog

from .simulated_machine import Machine

_REFERENCE_PARAMETERS = 6.74e9
_REFERENCE_BYTES = 3.83 * GIB
_REFERENCE_LAYERS = 32
_REFERENCE_TOKENS = 512
_LAYER_SECONDS = 0.0001
_TURN_SECONDS = 0.0003
_ROW_FACTOR = 2
_EXPERT_EFFICIENCY = 0.7
# A profile's caches can hold this many tokens at least.
_LEAST_CONTEXT_TOKENS = 8192
_PROMPT_SPEED = {
    "M1": 118,
    "M1 Pro": 266,
    "M1 Max": 530,
    "M1 Ultra": 1030,
    "M2": 180,
    "M2 Pro": 341,
    "M2 Max": 671,
    "M2 Ultra": 1238,
    "M3": 187,
    "M3 Pro": 342,
    "M3 Max": 760,
    "M3 Ultra": 1471,
    "M4": 221,
    "M4 Pro": 440,
    "M4 Max": 886,
    "M5": 608,
    "M5 Pro": 608 * 2,
    "M5 Max": 608 * 4,
    "M5 Ultra": 608 * 8,
}
_M5_ULTRA = Chip("M5 Ultra", 2 * 614, (512,))


@dataclass(frozen=True)
class Model:
    """A model's published figures, and those that only the simulation needs.

    `attention_width` is the number of query heads times their size.
    """

    entry: CatalogEntry
    num_layers: int
    attention_width: int

    @property
    def name(self) -> str:
        """The repository's name without its owner."""
        return self.entry.repository.rpartition("/")[2]


def _other(
    name: str,
    parameters: float,
    *,
    kv_bytes_per_token: int,
    num_layers: int,
    attention_width: int,
    active: float | None = None,
    bits: float = 4.5,
) -> Model:
    """Return a model that the catalog of recommendations does not have."""
    entry = CatalogEntry(
        repository=f"mlx-community/{name}",
        purpose="simulation",
        parameters=parameters,
        active_parameters=active or parameters,
        bits_per_weight=bits,
        kv_bytes_per_token=kv_bytes_per_token,
        context_length=32_768,
    )
    return Model(entry, num_layers, attention_width)


def _of_catalog(name: str, *, num_layers: int, attention_width: int) -> Model:
    (entry,) = (entry for entry in read_catalog() if entry.repository.endswith(f"/{name}"))
    return Model(entry, num_layers, attention_width)


MODELS = (
    _other(
        "Llama-3.2-1B-Instruct-4bit", 1.24, kv_bytes_per_token=32_768, num_layers=16, attention_width=2048
    ),
    _other(
        "Qwen3-1.7B-bf16",
        1.7,
        bits=16,
        kv_bytes_per_token=114_688,
        num_layers=28,
        attention_width=2048,
    ),
    _of_catalog("Llama-3.2-3B-Instruct-4bit", num_layers=28, attention_width=3072),
    _of_catalog("Qwen3-4B-4bit", num_layers=36, attention_width=4096),
    _of_catalog("Qwen3-8B-4bit", num_layers=36, attention_width=4096),
    _other("Qwen3-8B-8bit", 8.2, bits=8.5, kv_bytes_per_token=147_456, num_layers=36, attention_width=4096),
    _of_catalog("Qwen3-14B-4bit", num_layers=40, attention_width=5120),
    _of_catalog("gpt-oss-20b-MXFP4-Q8", num_layers=24, attention_width=4096),
    _of_catalog("Qwen3-30B-A3B-4bit", num_layers=48, attention_width=4096),
    _other("Qwen3-32B-4bit", 32.8, kv_bytes_per_token=262_144, num_layers=64, attention_width=8192),
    _other(
        "Llama-3.3-70B-Instruct-4bit",
        70.6,
        kv_bytes_per_token=327_680,
        num_layers=80,
        attention_width=8192,
    ),
    _of_catalog("GLM-4.5-Air-4bit", num_layers=46, attention_width=12_288),
    _other(
        "gpt-oss-120b-MXFP4-Q4",
        116.8,
        active=5.1,
        bits=4.3,
        kv_bytes_per_token=36_864,
        num_layers=36,
        attention_width=4096,
    ),
    _other(
        "Mistral-Large-Instruct-2407-4bit",
        122.6,
        kv_bytes_per_token=360_448,
        num_layers=88,
        attention_width=12_288,
    ),
)


@dataclass(frozen=True)
class Profile:
    """A model on a Mac."""

    chip: Chip
    memory_gib: int
    model: Model

    @property
    def name(self) -> str:
        """Chip, memory and model."""
        return f"{self.chip.name} {self.memory_gib} GB, {self.model.name}"

    @property
    def memory_limit_bytes(self) -> int:
        """What the GPU can use, as `mlxctl models fit --macs` says."""
        return int(self.memory_gib * GIB * recommended_share(self.memory_gib * GIB))

    @property
    def costs(self) -> ModelCosts:
        """The sizes of the loaded model."""
        return ModelCosts(
            weights_bytes=self.model.entry.weights_bytes,
            kv_bytes_per_token=self.model.entry.kv_bytes_per_token,
            num_layers=self.model.num_layers,
        )

    @cached_property
    def machine(self) -> Machine:
        """Seconds of passes and steps."""
        entry, num_layers = self.model.entry, self.model.num_layers
        bandwidth = self.chip.bandwidth_gb_per_second * 1e9
        reference_token = (
            1 / _PROMPT_SPEED[self.chip.name]
            - (_REFERENCE_BYTES / bandwidth + _REFERENCE_LAYERS * _LAYER_SECONDS) / _REFERENCE_TOKENS
        )
        has_experts = entry.active_parameters < entry.parameters
        token = reference_token * entry.active_parameters * 1e9 / _REFERENCE_PARAMETERS
        token /= _EXPERT_EFFICIENCY if has_experts else 1
        weights, fixed = entry.weights_bytes / bandwidth, num_layers * _LAYER_SECONDS
        fixed += 0 if has_experts else weights
        cache = entry.kv_bytes_per_token / bandwidth
        operations = 2 * _REFERENCE_PARAMETERS / reference_token
        return Machine(
            pass_fixed=fixed,
            pass_token=token,
            pass_context=cache,
            pass_attention=4 * num_layers * self.model.attention_width / operations,
            turn_fixed=_TURN_SECONDS,
            step_fixed=fixed,
            step_row=_ROW_FACTOR * token,
            step_context=cache,
            join_token=2 * cache,
            all_experts=weights if has_experts else 0.0,
            expert_share=entry.active_parameters / entry.parameters,
            num_layers=num_layers,
        )


def _fastest_chip(name: str) -> Chip:
    return max(
        (chip for chip in (*CHIPS, _M5_ULTRA) if chip.name == name),
        key=lambda chip: chip.bandwidth_gb_per_second,
    )


def profile(chip: str, memory_gib: int, model: str) -> Profile:
    """Return a Mac with a model, by their names."""
    found = _fastest_chip(chip)
    assert memory_gib in found.memory_gib, f"no {chip} with {memory_gib} GB"
    (chosen,) = (each for each in MODELS if each.name == model)
    made = Profile(found, memory_gib, chosen)
    needed = chosen.entry.weights_bytes + _LEAST_CONTEXT_TOKENS * chosen.entry.kv_bytes_per_token
    assert needed <= made.memory_limit_bytes, f"{made.name} does not fit"
    return made


def llama_7b(chip: str, memory_gib: int) -> Profile:
    """Return a Mac with the model whose speeds are published."""
    bits = _REFERENCE_BYTES * 8 / _REFERENCE_PARAMETERS
    model = _other(
        "LLaMA-7B-Q4_0",
        _REFERENCE_PARAMETERS / 1e9,
        bits=bits,
        kv_bytes_per_token=524_288,
        num_layers=_REFERENCE_LAYERS,
        attention_width=4096,
    )
    return Profile(_fastest_chip(chip), memory_gib, model)


_MACS = (
    ("M1", 8, ("Llama-3.2-1B-Instruct-4bit", "Qwen3-4B-4bit")),
    ("M1 Pro", 16, ("Llama-3.2-3B-Instruct-4bit", "Qwen3-8B-4bit")),
    ("M1 Max", 64, ("Qwen3-30B-A3B-4bit", "Llama-3.3-70B-Instruct-4bit")),
    ("M2", 24, ("Qwen3-8B-4bit", "gpt-oss-20b-MXFP4-Q8")),
    ("M2 Ultra", 192, ("GLM-4.5-Air-4bit", "Mistral-Large-Instruct-2407-4bit")),
    ("M3 Pro", 36, ("Qwen3-14B-4bit", "Qwen3-32B-4bit")),
    ("M3 Max", 128, ("Qwen3-30B-A3B-4bit", "Llama-3.3-70B-Instruct-4bit")),
    ("M3 Ultra", 512, ("gpt-oss-120b-MXFP4-Q4", "Mistral-Large-Instruct-2407-4bit")),
    ("M4", 16, ("Qwen3-1.7B-bf16", "Qwen3-8B-8bit")),
    ("M4 Pro", 48, ("Qwen3-30B-A3B-4bit", "Qwen3-32B-4bit")),
    ("M4 Max", 128, ("Qwen3-8B-4bit", "Llama-3.3-70B-Instruct-4bit")),
    ("M5", 32, ("Qwen3-8B-4bit", "gpt-oss-20b-MXFP4-Q8")),
    ("M5 Max", 128, ("Qwen3-14B-4bit", "GLM-4.5-Air-4bit")),
    ("M5 Ultra", 512, ("Llama-3.2-1B-Instruct-4bit", "gpt-oss-120b-MXFP4-Q4")),
)

PROFILES = tuple(profile(chip, memory_gib, model) for chip, memory_gib, models in _MACS for model in models)
"""From the smallest Mac to the largest, each with models that fit."""

# Measured: SmolLM2-135M-Instruct in float32 and 5M random parameters on two cores of a Linux machine.
SMOLLM2 = Machine(
    pass_fixed=0.1, pass_token=0.0095, step_fixed=0.105, step_row=0.005, join_row=0.005, num_layers=30
)
RANDOM_5M = Machine(
    pass_fixed=0.0045,
    pass_token=0.00022,
    pass_attention=4e-7,
    step_fixed=0.0035,
    step_row=0.0005,
    join_row=0.002,
    num_layers=6,
)
