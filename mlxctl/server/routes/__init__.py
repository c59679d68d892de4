"""The table of routes, one file for each family."""

from mlxctl.server.route import Route
from mlxctl.server.routes.adapters import ADAPTER_ROUTES
from mlxctl.server.routes.admin import ADMIN_ROUTES
from mlxctl.server.routes.agents import AGENT_ROUTES
from mlxctl.server.routes.anthropic import ANTHROPIC_ROUTES
from mlxctl.server.routes.cache import CACHE_ROUTES
from mlxctl.server.routes.health import HEALTH_ROUTES, PAGE_ROUTES
from mlxctl.server.routes.llama_cpp import LLAMA_CPP_ROUTES
from mlxctl.server.routes.lm_studio import LM_STUDIO_ROUTES
from mlxctl.server.routes.models import MODEL_ROUTES
from mlxctl.server.routes.ollama import OLLAMA_ROUTES
from mlxctl.server.routes.openai import OPENAI_ROUTES
from mlxctl.server.routes.policy import POLICY_ROUTES
from mlxctl.server.routes.rerank import RERANK_ROUTES
from mlxctl.server.routes.sagemaker import SAGEMAKER_ROUTES

__all__ = ["all_routes"]


def all_routes(*, has_page: bool = True) -> tuple[Route, ...]:
    """Return every route; without `has_page`, not those of the web page's files."""
    return (
        *OPENAI_ROUTES,
        *AGENT_ROUTES,
        *ANTHROPIC_ROUTES,
        *OLLAMA_ROUTES,
        *LLAMA_CPP_ROUTES,
        *LM_STUDIO_ROUTES,
        *RERANK_ROUTES,
        *SAGEMAKER_ROUTES,
        *MODEL_ROUTES,
        *ADAPTER_ROUTES,
        *CACHE_ROUTES,
        *ADMIN_ROUTES,
        *POLICY_ROUTES,
        *HEALTH_ROUTES,
        *(PAGE_ROUTES if has_page else ()),
    )
