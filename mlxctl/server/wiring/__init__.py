"""Wiring: builds the services from settings.

Runs in the front, and in `mlxctl chat` and `mlxctl run`.
"""

import logging
from dataclasses import dataclass

from mlxctl.engine import EngineClient
from mlxctl.formats.adapters import RequestDefaults
from mlxctl.inference import InferenceService
from mlxctl.inference.image_fetching import ImageFetcher
from mlxctl.inference.models.configured_models import ModelReader
from mlxctl.inference.models.lora_registry import LoraRegistry
from mlxctl.inference.models.refresh import ModelRefresh
from mlxctl.inference.models.startup_probe import StartupProbe
from mlxctl.inference.preparation import PreparationPool
from mlxctl.inference.routing import Router, create_router
from mlxctl.ir import SamplingOptions, ToneCurveOptions
from mlxctl.ir.errors import SettingsError
from mlxctl.library.capability_lookup import CapabilityLookup, open_capability_lookup
from mlxctl.library.catalog import Catalog
from mlxctl.library.library import Library
from mlxctl.library.probe_process import ProbeProcess
from mlxctl.server.policy import PolicyService
from mlxctl.server.wiring.launchers import engine_launcher
from mlxctl.server.wiring.policy import policy_service
from mlxctl.state import locations
from mlxctl.state.settings import AuditSettings, SamplingSettings, ServerSettings, Settings
from mlxctl.state.stores import AgentStore, AgentStores, ResponseStore
from mlxctl.state.stores.audit import AuditStore, read_audit_key
from mlxctl.state.stores.audit_files import AuditFiles

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Services that server and chat share."""

    inference: InferenceService
    router: Router
    catalog: Catalog
    responses: ResponseStore
    agents: AgentStores
    knowledge: CapabilityLookup
    policy: PolicyService
    audit: AuditStore | None = None

    def close(self) -> None:
        """Close the stores on disk. Idempotent."""
        self.responses.close()
        self.agents.close()
        self.knowledge.close()
        self.catalog.close()
        if self.audit is not None:
            self.audit.close()


def build_services(settings: Settings, *, probes_unknown: bool = False, in_process: bool = False) -> Services:
    """Create the services without starting them. Needs a running event loop.

    With `probes_unknown`, the start probes models that were never probed. The engine is a process, or with
    `in_process` a thread, unless it has several ranks. Raises ModelError when no model is usable,
    SettingsError for invalid models and capability overrides.
    """
    for directory in (locations.state_directory(), locations.config_file().parent):
        if (note := locations.keep_others_out(directory)) is not None:
            _log.warning("directory %s", note)
    engine = EngineClient(
        engine_launcher(settings, in_process=in_process),
        settings.engine,
        max_queue=settings.server.max_queue,
        scheduler=settings.scheduler,
    )
    knowledge = open_capability_lookup()
    catalog = Catalog(settings, knowledge)
    reader = ModelReader(settings, catalog.library, knowledge)
    probe = ProbeProcess(memory_limit_bytes=settings.engine.memory_limit_bytes) if probes_unknown else None
    inference = _inference(settings, engine, catalog.library, reader, probe)
    return Services(
        inference=inference,
        router=create_router(settings, inference),
        catalog=catalog,
        responses=ResponseStore(
            locations.state_directory() / "responses.sqlite",
            max_bytes=settings.server.response_store_bytes,
            ttl_seconds=settings.server.response_ttl_seconds,
        ),
        agents=_open_agents(settings.server),
        knowledge=knowledge,
        policy=policy_service(settings),
        audit=_open_audit_log(settings.audit),
    )


def _open_agents(settings: ServerSettings) -> AgentStores:
    return AgentStores(
        AgentStore(locations.agents_file(), max_agents=settings.max_agents),
        AgentStore(
            None,
            max_agents=settings.max_agents,
            ttl_seconds=settings.memory_agent_ttl_seconds,
            max_bytes=settings.memory_agent_bytes,
        ),
    )


def _inference(
    settings: Settings,
    engine: EngineClient,
    library: Library,
    reader: ModelReader,
    probe: ProbeProcess | None,
) -> InferenceService:
    registry = reader.registry()
    return InferenceService(
        engine,
        registry,
        LoraRegistry(engine, registry, settings.adapters, find=lambda name: library.find_named(name).path),
        pool=settings.pool,
        max_waiting=settings.server.max_queue + settings.engine.max_rows,
        # Bodies are parsed where requests are prepared.
        preparation=PreparationPool(
            modules=["mlxctl.protocols", "mlxctl.server.policy.request_screen"],
            request_defaults=request_defaults(settings),
        ),
        startup_probe=StartupProbe(reader, registry, probe) if probe is not None else None,
        refresh=ModelRefresh(reader, registry, offers_library=settings.pool.allow_library),
        # They are a part of the request like its body.
        images=ImageFetcher(settings.vision, max_request_bytes=settings.server.max_body_bytes),
    )


def request_defaults(settings: Settings) -> RequestDefaults:
    """Return the settings' options for requests that set none."""
    return RequestDefaults(
        strips_agent_headers=settings.server.strip_agent_headers,
        tone_curve=_tone_curve(settings.sampling),
        sampling=_sampling(settings.sampling),
        thinking=_THINKING[settings.sampling.thinking],
        max_tokens=settings.sampling.max_tokens,
        uses_fallback_sampling=settings.sampling.fallback,
        max_image_pixels=settings.vision.max_image_pixels,
        max_video_frames=settings.vision.max_video_frames,
    )


def _open_audit_log(settings: AuditSettings) -> AuditStore | None:
    if not settings.enabled:
        return None
    try:
        key = read_audit_key(locations.audit_key_file())
    except OSError as error:
        raise SettingsError(f"the key of the audit log cannot be used: {error}") from None
    files = AuditFiles(
        settings.path or locations.audit_directory(),
        retention_days=settings.retention_days,
        max_bytes=settings.max_bytes,
    )
    return AuditStore(files, key=key, debug=settings.debug)


_THINKING = {"auto": None, "on": True, "off": False}


def _sampling(settings: SamplingSettings) -> SamplingOptions:
    return SamplingOptions(
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=None if settings.top_k is None else max(settings.top_k, 0),
        min_p=settings.min_p,
        repetition_penalty=settings.repetition_penalty,
        seed=settings.seed,
    )


def _tone_curve(settings: SamplingSettings) -> ToneCurveOptions:
    return ToneCurveOptions(
        enabled=settings.hlg,
        width=settings.hlg_width,
        shoulder=settings.hlg_shoulder,
        toe=settings.hlg_toe,
        pivot_offset=settings.hlg_pivot_offset,
    )
