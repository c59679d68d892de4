"""Asks the engine what its prefix cache holds, and explains requests. Event-loop thread only."""

import time
from collections.abc import Sequence

from mlxctl.adapters import ModelAdapter
from mlxctl.engine import CacheAction, CacheAnswer, EngineClient
from mlxctl.errors import InvalidRequest, MlxctlError
from mlxctl.inference.cache.explanation import Explanation, explain
from mlxctl.inference.cache.recent_prompts import RecentPrompts, RecordedPrompt
from mlxctl.inference.cache.token_text import token_text
from mlxctl.inference.cache.user_markers import user_markers
from mlxctl.inference.models.manager import ModelManager
from mlxctl.inference.preparation import PackedRequest, PreparationPool, jobs
from mlxctl.ir.tokens import Salt, Tokens


class CacheInspector:
    """What people and tools may ask of the prefix cache of the models in a pool."""

    def __init__(self, engine: EngineClient, preparation: PreparationPool, manager: ModelManager) -> None:
        self._engine = engine
        self._preparation = preparation
        self._manager = manager
        self._prompts = RecentPrompts()

    def record(
        self, packed: PackedRequest, prompt_ids: Sequence[int], salts: Sequence[Salt], *, model: str
    ) -> RecordedPrompt:
        """Remember a request that is about to be submitted to `model`; `salts` are what its images make of
        its tokens.
        """
        return self._prompts.record(
            packed, prompt_ids, salts, model=model, num_engine_restarts=self._engine.num_restarts
        )

    async def page(self, *, offset: int, limit: int) -> CacheAnswer:
        """Return a page of what is kept, the least recently used first.

        Raises EngineRecovering, EngineDied.
        """
        return await self._engine.ask_cache("list", offset=offset, limit=limit)

    async def change(self, action: CacheAction, keys: Sequence[bytes] = ()) -> CacheAnswer:
        """Pin, unpin, drop, clear or sweep. Raises EngineRecovering, EngineDied."""
        return await self._engine.ask_cache(action, keys=keys)

    async def text(self, model: str, tokens: Tokens, salts: Sequence[Salt], start: int) -> str | None:
        """Return what tokens from `start` on say, with the images among them; None for a model that is not
        served any more.
        """
        try:
            reader = await self._manager.reader(model)
        except MlxctlError:
            return None
        bytes_of = reader.tokens.bytes_of
        return token_text(
            tokens, salts, start, lambda run: b"".join(map(bytes_of, run)).decode(errors="replace")
        )

    async def markers(self, model: str) -> tuple[str, str] | None:
        """Return what the chat template writes before and behind a user's message; None for a model that is
        not served.
        """
        try:
            name = (await self._manager.reader(model)).name
            markers: tuple[str, str] | None = await self._preparation.run(
                user_markers, num_bytes=0, model=name
            )
        except MlxctlError:
            return None
        return markers

    async def explain_last(self, num: int) -> list[Explanation]:
        """Explain the last requests that the model was asked, the newest first. Raises ModelUnavailable."""
        return [await self._explain(recorded) for recorded in self._prompts.last(num)]

    async def explain_request(self, packed: PackedRequest) -> Explanation:
        """Explain what would be known of a conversation if it were asked for now.

        Raises what `InferenceService.start` does.
        """
        if packed.head.prompts:
            raise InvalidRequest("raw prompts are not explained; send a conversation", param="prompt")
        session, lease = await self._manager.use(packed.head.model)
        try:
            prompt = await self._preparation.run(
                jobs.fitting_prompt_tokens, packed, num_bytes=packed.num_bytes, model=session.name
            )
            found = await session.look_up(prompt.token_ids, prompt.salts)
            recorded = RecordedPrompt(
                number=self._prompts.next_number,
                at=time.time(),
                model=session.name,
                packed=prompt.normalized or packed,
                prompt_ids=prompt.token_ids,
                salts=prompt.salts,
                num_engine_restarts=self._engine.num_restarts,
                cache_usage=found.usage,
            )
            return await self._explain(recorded)
        finally:
            lease.release()

    async def _explain(self, recorded: RecordedPrompt) -> Explanation:
        # Rendering conversations again and again takes its time.
        await self._manager.reader(recorded.model)
        earlier = self._prompts.before(recorded.number)
        num_bytes = sum(other.num_bytes for other in (recorded, *earlier))
        explained: Explanation = await self._preparation.run(
            explain_recorded, recorded, earlier, num_bytes=num_bytes, model=recorded.model
        )
        return explained


def explain_recorded(
    adapter: ModelAdapter, recorded: RecordedPrompt, earlier: Sequence[RecordedPrompt]
) -> Explanation:
    """Explain one request by those before it, in a process that prepares."""
    return explain(recorded, earlier, adapter)
