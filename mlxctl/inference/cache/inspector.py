"""Asks the engine what its prefix cache holds, and explains requests. Event-loop thread only."""

import asyncio
import time
from array import array
from collections.abc import Sequence

from mlxctl.adapters import ModelAdapter
from mlxctl.engine import CacheAction, CacheAnswer, EngineClient
from mlxctl.errors import InvalidRequest, MlxctlError
from mlxctl.inference import preparing
from mlxctl.inference.cache.explanation import Explanation, explain
from mlxctl.inference.cache.seen import SeenRequest, SeenRequests, without_image_bytes
from mlxctl.inference.cache.told_text import told_text
from mlxctl.inference.cache.user_markers import user_markers
from mlxctl.inference.pool import ModelPool
from mlxctl.ir import GenerationRequest
from mlxctl.prefix_cache.chunks import Salt, Tokens, prompt_salts


class CacheInspector:
    """What people and tools may ask of the prefix cache of the models in a pool."""

    def __init__(self, engine: EngineClient, pool: ModelPool) -> None:
        self._engine = engine
        self._pool = pool
        self._seen = SeenRequests()

    def begin(self, request: GenerationRequest, prompt_ids: Sequence[int], salts: Sequence[Salt], *, model: str) -> SeenRequest:
        """Remember a request that is about to be submitted to `model`; `salts` are what its pictures make of its tokens."""
        return self._seen.begin(request, prompt_ids, salts, model=model, engine_life=self._engine.num_restarts)

    async def page(self, *, offset: int, limit: int) -> CacheAnswer:
        """Return a page of what is kept, the least recently used first. Raises EngineRecovering, EngineDied."""
        return await self._engine.ask_cache("list", offset=offset, limit=limit)

    async def change(self, action: CacheAction, keys: Sequence[bytes] = ()) -> CacheAnswer:
        """Pin, unpin, drop, clear or sweep. Raises EngineRecovering, EngineDied."""
        return await self._engine.ask_cache(action, keys=keys)

    async def text(self, model: str, tokens: Tokens, salts: Sequence[Salt], start: int) -> str | None:
        """Return what tokens from `start` on say, with the images among them; None for a model that is not served any more."""
        try:
            adapter = await self._pool.adapter(model)
        except MlxctlError:
            return None
        bytes_of = adapter.vocabulary.bytes_of
        return told_text(tokens, salts, start, lambda run: b"".join(map(bytes_of, run)).decode(errors="replace"))

    async def markers(self, model: str) -> tuple[str, str] | None:
        """Return what the chat template writes before and behind a user's message; None for a model that is not served."""
        try:
            return user_markers(await self._pool.adapter(model))
        except MlxctlError:
            return None

    async def explain_last(self, num: int) -> list[Explanation]:
        """Explain the last requests that the model was asked, the newest first. Raises ModelUnavailable."""
        return [await self._explain(seen, await self._pool.adapter(seen.model)) for seen in self._seen.last(num)]

    async def explain_request(self, request: GenerationRequest) -> Explanation:
        """Explain what would be known of a conversation if it were asked for now. Raises what `InferenceService.start` does."""
        if request.prompts:
            raise InvalidRequest("raw prompts are not explained; send a conversation", param="prompt")
        adapter, lease = await self._pool.use(request.model)
        try:
            prompt = await preparing.prompt_tokens(adapter, request)
            salts = prompt_salts(request.cache.namespace, prompt.pictures)
            found = await self._engine.look_up(lease.name, prompt.token_ids, salts)
            seen = SeenRequest(
                number=self._seen.next_number,
                at=time.time(),
                model=lease.name,
                request=without_image_bytes(request),
                prompt_ids=array("I", prompt.token_ids),
                salts=salts,
                engine_life=self._engine.num_restarts,
                num_cached=found.num_cached,
                num_known=found.num_known,
                gone=found.gone,
            )
            return await self._explain(seen, adapter)
        finally:
            lease.release()

    async def _explain(self, seen: SeenRequest, adapter: ModelAdapter) -> Explanation:
        # Rendering conversations again and again takes its time.
        return await asyncio.to_thread(explain, seen, self._seen.before(seen.number), adapter)
