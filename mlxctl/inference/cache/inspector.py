"""Queries of the engine's prefix cache, and explanations of requests.

Event-loop thread only.
"""

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from mlxctl.engine import CacheAction, CacheAnswer, CachedChunk, EngineClient
from mlxctl.formats.adapters import ModelAdapter
from mlxctl.inference.cache.explanation import Explanation, explain
from mlxctl.inference.cache.recent_prompts import RecentPrompts, RecordedPrompt
from mlxctl.inference.cache.token_text import token_text
from mlxctl.inference.cache.user_markers import user_markers
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.interface import CacheEntry
from mlxctl.inference.models.manager import Models
from mlxctl.inference.preparation import PackedRequest, PreparationPool, jobs
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.cache_policy import CachePolicy
from mlxctl.ir.errors import InvalidRequest, MlxctlError
from mlxctl.ir.tokens import Salt, Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPrompt:
    """Numbers of a prompt's tokens, in memory and on disk."""

    num_prompt_tokens: int
    num_cached_tokens: int
    num_tokens_on_disk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePage:
    """The chunks of a page that a caller may see.

    The page ends before `end`; None on the last one. `num_chunks` counts all chunks of the cache.
    """

    chunks: Sequence[CachedChunk]
    end: int | None
    num_chunks: int


class CacheView:
    """Queries of the prefix cache, and prompts recorded for explanations."""

    def __init__(self, engine: EngineClient, preparation: PreparationPool, models: Models) -> None:
        self._engine = engine
        self._preparation = preparation
        self._models = models
        self._prompts = RecentPrompts()

    def record(
        self, packed: PackedRequest, prompt_ids: Sequence[int], salts: Sequence[Salt], *, model: str
    ) -> RecordedPrompt:
        """Record a request that is about to be submitted.

        `salts` separate its images' tokens.
        """
        return self._prompts.record(
            packed, prompt_ids, salts, model=model, num_engine_restarts=self._engine.num_restarts
        )

    async def page(self, allowed: AllowedModels, *, offset: int, limit: int) -> CachePage:
        """Return a page of the cached chunks, the least recently used first.

        Raises EngineRecovering, EngineDied.
        """
        answer = await self._engine.ask_cache("list", offset=offset, limit=limit)
        end = offset + len(answer.chunks)
        return CachePage(
            chunks=[chunk for chunk in answer.chunks if chunk.model in allowed],
            end=end if answer.chunks and end < answer.num_chunks else None,
            num_chunks=answer.num_chunks,
        )

    async def entries(self, call: CallContext, limit: int) -> list[CacheEntry]:
        """Return cached chunks with their texts, the most recently used first.

        Raises as `page` does.
        """
        num_chunks = (await self.page(call.models, offset=0, limit=1)).num_chunks
        page = await self.page(call.models, offset=max(0, num_chunks - limit), limit=limit)
        return [
            CacheEntry(
                num_tokens=len(token_ids),
                memory_bytes=chunk.memory_bytes,
                disk_bytes=chunk.disk_bytes,
                num_hits=chunk.num_hits,
                num_images=chunk.num_images,
                used_at=chunk.used_at or None,
                text=await self.text(chunk.model, call, token_ids, chunk.salts, chunk.start),
            )
            for chunk in reversed(page.chunks)
            for token_ids in (array("I", chunk.tokens),)
        ]

    async def change(self, action: CacheAction, keys: Sequence[bytes] = ()) -> CacheAnswer:
        """Pin, unpin, drop, clear or collect. Raises EngineRecovering, EngineDied."""
        return await self._engine.ask_cache(action, keys=keys)

    @property
    def policy(self) -> CachePolicy:
        """The prefix cache's policy in force."""
        return self._engine.cache_policy

    @property
    def max_bytes(self) -> int | None:
        """Most bytes of the prefix cache.

        None before the engine has started, if the settings leave it to the engine.
        """
        return self._engine.prefix_cache_bytes

    def configure(self, policy: CachePolicy) -> None:
        """Change the prefix cache's policy."""
        self._engine.configure_cache(policy)

    async def text(
        self, model: str, call: CallContext, tokens: Tokens, salts: Sequence[Salt], start: int
    ) -> str | None:
        """Return the text of tokens from `start` on, with images by name.

        None for a model that is not served any more.
        """
        try:
            reader = await self._models.reader(model, call)
        except MlxctlError:
            return None
        bytes_of = reader.tokens.bytes_of
        return token_text(
            tokens, salts, start, lambda run: b"".join(map(bytes_of, run)).decode(errors="replace")
        )

    async def markers(self, model: str, call: CallContext) -> tuple[str, str] | None:
        """Return the template's markers before and after a user message.

        None for a model that is not served.
        """
        try:
            name = (await self._models.reader(model, call)).name
            markers: tuple[str, str] | None = await self._preparation.run(
                user_markers, num_bytes=0, model=name
            )
        except MlxctlError:
            return None
        return markers

    async def look_up(self, packed: PackedRequest, call: CallContext) -> CachedPrompt:
        """Return the length of a prompt and its cached tokens.

        Raises what `InferenceService.generate_all` does.
        """
        packed = self._models.lora.apply(call.bind(packed), call.models)
        session, lease = await self._models.use(packed.head.model, call)
        try:
            prompt: jobs.PackedPrompt = await self._preparation.run_on(
                jobs.prompt_tokens, packed, model=session.name
            )
            found = await session.look_up(prompt.token_ids, prompt.salts)
        finally:
            lease.release()
        return CachedPrompt(
            num_prompt_tokens=len(prompt.token_ids),
            num_cached_tokens=found.usage.num_cached_tokens,
            num_tokens_on_disk=found.num_on_disk,
        )

    async def explain_last(self, num: int, call: CallContext) -> list[Explanation]:
        """Explain the last requests, newest first. Raises ModelUnavailable."""
        return [await self._explain(recorded, call) for recorded in self._prompts.last(num, call.models)]

    async def explain_request(self, packed: PackedRequest, call: CallContext) -> Explanation:
        """Explain how much of a conversation's prompt is cached now.

        Raises what `InferenceService.generate_all` does.
        """
        if packed.head.prompts:
            raise InvalidRequest("raw prompts are not explained; send a conversation", param="prompt")
        packed = self._models.lora.apply(call.bind(packed), call.models)
        session, lease = await self._models.use(packed.head.model, call)
        try:
            prompt: jobs.PackedPrompt = await self._preparation.run_on(
                jobs.fitting_prompt_tokens, packed, model=session.name
            )
            found = await session.look_up(prompt.token_ids, prompt.salts)
            recorded = RecordedPrompt(
                number=self._prompts.next_number,
                at=time.time(),
                model=session.name,
                packed=prompt.normalized or packed,
                num_prompt_tokens=len(prompt.token_ids),
                prompt_ids=prompt.token_ids,
                salts=prompt.salts,
                num_engine_restarts=self._engine.num_restarts,
                cache_usage=found.usage,
            )
            return await self._explain(recorded, call)
        finally:
            lease.release()

    async def _explain(self, recorded: RecordedPrompt, call: CallContext) -> Explanation:
        # Loads the adapter that the explanation renders conversations with.
        await self._models.reader(recorded.model, call)
        earlier = self._prompts.before(recorded.number, call.models)
        num_bytes = sum(other.num_bytes for other in (recorded, *earlier))
        explained: Explanation = await self._preparation.run(
            explain_recorded, recorded, earlier, num_bytes=num_bytes, model=recorded.model
        )
        return explained


def explain_recorded(
    adapter: ModelAdapter, recorded: RecordedPrompt, earlier: Sequence[RecordedPrompt]
) -> Explanation:
    """Explain one request by earlier ones, in a preparation process."""
    return explain(recorded, earlier, adapter)
