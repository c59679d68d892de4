"""The only place where things are wired: settings in, services out."""

from dataclasses import dataclass, replace

from mlxctl import demo, locations
from mlxctl.engine import EngineClient, EngineProcess
from mlxctl.inference import InferenceService, ModelToServe
from mlxctl.models import Library, NamedDirectory, read_model
from mlxctl.models.catalogue import Catalogue
from mlxctl.models.knowledge import Knowledge, open_knowledge
from mlxctl.settings import ModelSettings, Settings
from mlxctl.stores import AgentStore, ResponseStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the doors of the house share."""

    inference: InferenceService
    catalogue: Catalogue
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

    Raises ModelError for an unusable model, and SettingsError for overrides of capabilities that cannot be honoured.
    """
    engine_settings = replace(settings.engine, cache_dir=settings.engine.cache_dir or locations.cache_directory())
    engine = EngineClient(EngineProcess(engine_settings), engine_settings, max_queue=settings.server.max_queue)
    responses = ResponseStore(
        locations.state_directory() / "responses.sqlite",
        max_bytes=settings.server.response_store_bytes,
        ttl_seconds=settings.server.response_ttl_seconds,
    )
    agents = AgentStore(locations.state_directory() / "agents.sqlite", max_agents=settings.server.max_agents)
    catalogue = Catalogue(settings)
    knowledge = open_knowledge()
    inference = InferenceService(
        engine,
        [choose_model(settings.model, catalogue.library, knowledge)],
        strip_agent_headers=settings.server.strip_agent_headers,
    )
    return Services(inference=inference, catalogue=catalogue, responses=responses, agents=agents, knowledge=knowledge)


def choose_model(settings: ModelSettings, library: Library, knowledge: Knowledge) -> ModelToServe:
    """Read the model that the settings name, or the built-in demo model, and what is known of it.

    Raises ModelNotFoundOnDisk, BrokenModel.
    """
    is_demo = settings.path is None
    found = NamedDirectory(name=demo.MODEL_NAME, path=demo.MODEL_DIR) if is_demo else library.resolve(str(settings.path))
    facts = read_model(found.path, trust_remote_code=settings.trust_remote_code)
    known = knowledge.of(found.name, found.path)
    return ModelToServe(
        name=settings.name or found.name,
        facts=facts,
        capabilities=known.capabilities,
        verdicts=known.verdicts,
        is_demo=is_demo,
        trust_remote_code=settings.trust_remote_code,
    )
