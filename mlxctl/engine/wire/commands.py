"""Commands that the front sends to the engine.

Every command is a tagged msgspec Struct. Numbers, strings and bytes cross, never arrays.
"""

from typing import Literal

import msgspec

from mlxctl.ir import (
    CacheMode,
    Guidance,
    ModelSpec,
    ProcessedImage,
    SamplingParams,
)
from mlxctl.ir.cache_policy import CachePolicy
from mlxctl.ir.lora import LoraChoice, LoraSpec
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.ir.tokens import Salt
from mlxctl.prefix_cache.policy import UNLIMITED_LIFETIME, Lifetime

CacheAction = Literal["list", "pin", "unpin", "drop", "clear", "gc"]


class Command(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of what the front sends to the engine."""


class LoadModel(Command, frozen=True, kw_only=True):
    """Load a model; answered by ModelLoaded or ModelFailed."""

    spec: ModelSpec


class UnloadModel(Command, frozen=True, kw_only=True):
    """Free a model, or stop loading it; answered by ModelUnloaded.

    A model with open requests stays loaded, and the report has `is_in_use`.
    """

    name: str


class ReadGrammarVocabulary(Command, frozen=True, kw_only=True):
    """Prepare grammar matching for a model; without an answer.

    `stop_token_ids` end the model's answers. Without this command the first grammar pays for it.
    """

    name: str
    stop_token_ids: list[int]


class Submit(Command, frozen=True, kw_only=True):
    """Generate after a prompt, until a stop token, `max_tokens`, or a Cancel.

    `prompt_token_ids` are packed uint32 in the machine's byte order. With `max_tokens` 0 the prompt is
    prefilled only. With `scores_prompt` all of it is computed, and nothing is stored in the prefix cache.
    `adapters` are mounted LoRA adapters. Prefixes are shared within a `cache_namespace`, which differs
    between adapters. `request_id` is the HTTP request's, for logs and errors.
    """

    sequence_id: int
    request_id: str = ""
    model: str
    prompt_token_ids: bytes
    sampling: SamplingParams
    stop_token_ids: list[int]
    max_tokens: int
    priority: int = 0
    fairness_key: str = ""
    cache_mode: CacheMode = "full"
    cache_namespace: bytes = b""
    lifetime: Lifetime = UNLIMITED_LIFETIME
    guidance: Guidance | None = None
    images: list[ProcessedImage] = []
    scores_prompt: bool = False
    adapters: tuple[LoraChoice, ...] = ()


class Cancel(Command, frozen=True, kw_only=True):
    """Drop sequences and jobs before the next step, without a report."""

    ids: list[int]


class Pause(Command, frozen=True, kw_only=True):
    """Interrupt sequences until an Unpause; without an answer.

    Tokens that were computed before are still reported.
    """

    ids: list[int]


class Unpause(Command, frozen=True, kw_only=True):
    """Let paused sequences continue; no answer follows."""

    ids: list[int]


class QueryCommand(Command, frozen=True, kw_only=True):
    """Base of commands with one answer, which has the same `token`."""

    token: int


class ReportStats(QueryCommand, frozen=True, kw_only=True):
    """Return all counters; answered by Stats."""


class LookUp(QueryCommand, frozen=True, kw_only=True):
    """Return how much of a prompt is cached; answered by LookedUp.

    The prompt is as in Submit. `salts` are the caller's namespace and the prompt's images.
    """

    model: str
    prompt_token_ids: bytes
    salts: list[Salt] = []


class AskCache(QueryCommand, frozen=True, kw_only=True):
    """Query or change the prefix cache; answered by CacheAnswer.

    `keys` name chunks to pin or unpin, or to drop with all chunks after them. `clear` drops everything, `gc`
    what has expired; chunks that are in use or pinned stay.
    """

    action: CacheAction
    keys: list[bytes] = []
    offset: int = 0
    limit: int = 0


class MountLora(QueryCommand, frozen=True, kw_only=True):
    """Mount a LoRA adapter on a loaded model; answered by LoraChanged."""

    model: str
    spec: LoraSpec


class UnmountLora(QueryCommand, frozen=True, kw_only=True):
    """Unmount a LoRA adapter; answered by LoraChanged."""

    model: str
    name: str


class ConfigureScheduler(Command, frozen=True, kw_only=True):
    """Change the scheduler's policy from the next step on; without an answer."""

    policy: SchedulerPolicy


class ConfigureCache(Command, frozen=True, kw_only=True):
    """Change the prefix cache's policy; without an answer."""

    policy: CachePolicy


class Stop(Command, frozen=True, kw_only=True):
    """End now and drop open requests; the front has drained them before."""
