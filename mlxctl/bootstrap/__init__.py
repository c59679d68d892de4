"""The only place where things are wired: settings in, services out."""

from dataclasses import dataclass
from functools import partial

from mlxctl import locations
from mlxctl.bootstrap.configured_models import make_offer, read_library_model
from mlxctl.engine import EngineClient, EngineProcess
from mlxctl.inference import InferenceService
from mlxctl.inference.preparation import PreparationPool
from mlxctl.ir import ToneCurveOptions
from mlxctl.models.catalog import Catalog
from mlxctl.models.knowledge import Knowledge, open_knowledge
from mlxctl.settings import SamplingSettings, Settings
from mlxctl.stores import AgentStore, ResponseStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the doors of the house share."""

    inference: InferenceService
    catalog: Catalog
    responses: ResponseStore
    agents: AgentStore
    knowledge: Knowledge

    def close(self) -> None:
        """Close what lies on disk. Idempotent."""
        self.responses.close()
        self.agents.close()
        self.knowledge.close()


def build_services(settings: Settings) -> Services:
    """Wire the services up; nothing runs yet. Needs a running event loop.

    Raises ModelError when no model can be used, and SettingsError for models and overrides of capabilities
    that cannot be honored.
    """
    engine = EngineClient(
        EngineProcess(settings.engine), settings.engine, max_queue=settings.server.max_queue
    )
    responses = ResponseStore(
        locations.state_directory() / "responses.sqlite",
        max_bytes=settings.server.response_store_bytes,
        ttl_seconds=settings.server.response_ttl_seconds,
    )
    agents = AgentStore(locations.agents_file(), max_agents=settings.server.max_agents)
    knowledge = open_knowledge()
    catalog = Catalog(settings, knowledge)
    offer = make_offer(settings, catalog.library, knowledge)
    inference = InferenceService(
        engine,
        offer.named,
        others=offer.others,
        unusable=offer.unusable,
        find=partial(read_library_model, settings=settings, library=catalog.library, knowledge=knowledge)
        if settings.pool.allow_library
        else None,
        pool=settings.pool,
        max_waiting=settings.server.max_queue + settings.engine.max_rows,
        strip_agent_headers=settings.server.strip_agent_headers,
        tone_curve=_tone_curve(settings.sampling),
        # Bodies are parsed where requests are prepared.
        preparation=PreparationPool(modules=["mlxctl.protocols"]),
    )
    return Services(
        inference=inference, catalog=catalog, responses=responses, agents=agents, knowledge=knowledge
    )


def _tone_curve(settings: SamplingSettings) -> ToneCurveOptions:
    return ToneCurveOptions(
        enabled=settings.hlg,
        width=settings.hlg_width,
        shoulder=settings.hlg_shoulder,
        toe=settings.hlg_toe,
        pivot_offset=settings.hlg_pivot_offset,
    )
