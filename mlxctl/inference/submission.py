"""Submission of prepared requests to the engine. Event-loop thread only."""

import asyncio
import hashlib
from functools import partial

from mlxctl.engine import EngineClient
from mlxctl.inference.active_agents import ActiveAgents
from mlxctl.inference.answers import choice_of
from mlxctl.inference.cache import CacheView
from mlxctl.inference.call_context import CallContext, PromptFacts
from mlxctl.inference.generation import Generation
from mlxctl.inference.models.leases import Lease
from mlxctl.inference.preparation import PackedRequest, PreparationPool, jobs
from mlxctl.inference.prompt_echo import PromptEcho
from mlxctl.inference.request_entry import TokenContent
from mlxctl.inference.request_log import RequestLog
from mlxctl.inference.session import ModelSession
from mlxctl.ir.errors import InvalidRequest, MlxctlError
from mlxctl.ir.tokens import prompt_salts


class Submissions:
    """Checks and submits the answers of a request: all or none.

    Each answer gets an entry in the request log and a record for cache explanations.
    """

    def __init__(
        self,
        engine: EngineClient,
        preparation: PreparationPool,
        cache: CacheView,
        agents: ActiveAgents,
        log: RequestLog,
    ) -> None:
        self._engine = engine
        self._preparation = preparation
        self._cache = cache
        self._agents = agents
        self._log = log

    def submit(
        self,
        session: ModelSession,
        lease: Lease,
        request: PackedRequest,
        prepared: jobs.Preparation,
        call: CallContext,
    ) -> list[Generation]:
        """Submit every choice of every prompt.

        Raises InvalidRequest for more answers than places, ContextOverBudget, CapacityError, and what the
        check of the request's key raises.
        """
        num_answers, num_places = len(prepared.inputs) * request.head.num_choices, self._engine.max_places
        if num_answers > num_places:
            message = f"{num_answers} answers are requested, but batch and queue have {num_places} places"
            raise InvalidRequest(f"{message}; ask for fewer", param="n")
        for prompt in prepared.inputs:
            session.check_budget(request.head, prompt)
        call.record.check_key()
        generations: list[Generation] = []
        try:
            for number in range(len(prepared.inputs)):
                for index in range(request.head.num_choices):
                    # Submitted ones must be known when one fails.
                    generation = self._submit_choice(session, lease, request, prepared, call, number, index)
                    generations.append(generation)
        except MlxctlError:
            for generation in generations:
                generation.cancel()
            raise
        return generations

    def _submit_choice(
        self,
        session: ModelSession,
        lease: Lease,
        request: PackedRequest,
        preparation: jobs.Preparation,
        call: CallContext,
        number: int,
        index: int,
    ) -> Generation:
        """Submit choice `index` of prompt `number`."""
        head, prepared = request.head, choice_of(preparation.inputs[number], index)
        processor = session.create_stream_processor(head, prepared)
        tokens = session.submit(head, prepared, request_id=call.request_id, fairness_key=call.fairness_key)
        lease.share()
        entry = self._log.begin(
            head.model, call, num_prompt_tokens=len(prepared.token_ids), on_end=lease.release
        )
        entry.session_id, entry.num_images = head.cache.session_id, len(prepared.images)
        entry.adapter = "+".join(choice.name for choice in head.adapters or ()) or None
        # The exact tokens of an answer matter to the prefix cache only.
        opened = b"" if head.cache.mode == "off" else preparation.opened[number]
        answer_ids: list[int] = []
        if call.record.keeps_content:
            entry.content = TokenContent(
                prompt_ids=prepared.token_ids,
                answer_ids=answer_ids,
                bytes_of=session.reader.tokens.bytes_of,
            )
        normalized = (
            preparation.normalized.with_head(cache=head.cache)
            if preparation.normalized is not None
            else request
        )
        salts = prompt_salts(head.cache.prefix_namespace, prepared.images)
        recorded = self._cache.record(normalized, prepared.token_ids, salts, model=session.name)
        entry.agent = self._agents.name_of(head, preparation.opening, owner=call.owner)
        if entry.agent is not None:
            self._agents.record(entry.agent, recorded, head.cache.namespace, owner=call.owner)
        return Generation(
            tokens,
            processor,
            entry,
            recorded,
            answer_ids=answer_ids,
            on_complete=partial(self._preparation.record_answer, session.name, opened),
            echo=PromptEcho.of(head, prepared, session.reader),
            reported_prompt=prepared.token_ids if head.reports_tokens else None,
        )


async def review(
    session: ModelSession, request: PackedRequest, prepared: jobs.Preparation, call: CallContext
) -> None:
    """Let the call review the prompts. Raises what it raises."""
    if call.review is None:
        return
    bytes_of = session.reader.tokens.bytes_of

    def digest() -> str:
        whole = hashlib.sha256()
        for prompt in prepared.inputs:
            whole.update(b"".join(map(bytes_of, prompt.token_ids)))
        return whole.hexdigest()

    facts = PromptFacts(
        num_tokens=sum(len(prompt.token_ids) for prompt in prepared.inputs),
        tools=tuple(tool.name for tool in request.head.tools),
        sha256=await asyncio.to_thread(digest),
    )
    await call.review(session.name, facts)
