"""Coding agents, and how each is pointed at a server.

Without touching a file of the user. Pure. The environment variables and options are those of Claude Code 2.1,
Codex 0.169, opencode 1.18, GitHub Copilot CLI 1.0 and pi 1.5.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_ANY_KEY = "mlxctl"
"""Clients insist on a key, also where the server wants none."""

_PI_RESERVE_TOKENS = 16_384
"""Tokens of the context that pi keeps free by default."""

_PI_RECENT_TOKENS = 20_000
"""Tokens that pi keeps by default when it summarizes a conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The server and model that a client uses.

    `url` has no path, `context_length` is in tokens.
    """

    url: str
    model: str
    context_length: int
    api_key: str | None = None

    @property
    def key(self) -> str:
        """The key that the client sends."""
        return self.api_key or _ANY_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """Arguments and environment of a client to execute.

    Arguments come before those of the user. `files` are written into a private directory, whose path replaces
    `{directory}` in the environment.
    """

    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A coding agent that `mlxctl launch` can start.

    `min_context` is the shortest context, in tokens, in which its first request leaves half for the work:
    twice the measured size of that request, at four bytes a token.
    """

    name: str
    executable: str
    install: str
    min_context: int
    plan: Callable[[Endpoint], LaunchPlan]


def _claude(endpoint: Endpoint) -> LaunchPlan:
    # Claude Code asks for models by role; this model has every role.
    roles = (
        "ANTHROPIC_MODEL",
        "ANTHROPIC_SMALL_FAST_MODEL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL",
        "ANTHROPIC_DEFAULT_OPUS_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL",
        "CLAUDE_CODE_SUBAGENT_MODEL",
    )
    return LaunchPlan(
        environment={
            "ANTHROPIC_BASE_URL": endpoint.url,
            "ANTHROPIC_AUTH_TOKEN": endpoint.key,
            # Otherwise an API key of Anthropic in the environment would be sent to this server.
            "ANTHROPIC_API_KEY": "",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(endpoint.context_length),
            **dict.fromkeys(roles, endpoint.model),
        }
    )


def _codex(endpoint: Endpoint) -> LaunchPlan:
    provider = {
        "name": "mlxctl",
        "base_url": f"{endpoint.url}/v1",
        "wire_api": "responses",
        "env_key": "MLXCTL_API_KEY",
    }
    overrides = {
        "model": endpoint.model,
        "model_provider": "mlxctl",
        "model_context_window": endpoint.context_length,
        **{f"model_providers.mlxctl.{name}": value for name, value in provider.items()},
    }
    # Values are in TOML, whose strings and numbers JSON also has.
    arguments = [part for name, value in overrides.items() for part in ("-c", f"{name}={json.dumps(value)}")]
    return LaunchPlan(arguments=tuple(arguments), environment={"MLXCTL_API_KEY": endpoint.key})


def _opencode(endpoint: Endpoint) -> LaunchPlan:
    name = f"mlxctl/{endpoint.model}"
    limit = {"context": endpoint.context_length, "output": endpoint.context_length // 4}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "mlxctl",
        "options": {"baseURL": f"{endpoint.url}/v1", "apiKey": endpoint.key},
        "models": {endpoint.model: {"name": endpoint.model, "limit": limit, "tool_call": True}},
    }
    # Merged over the user's own configuration by opencode itself.
    config = {"provider": {"mlxctl": provider}, "model": name, "small_model": name}
    return LaunchPlan(environment={"OPENCODE_CONFIG_CONTENT": json.dumps(config)})


def _copilot(endpoint: Endpoint) -> LaunchPlan:
    output_tokens = endpoint.context_length // 4
    return LaunchPlan(
        environment={
            "COPILOT_PROVIDER_BASE_URL": f"{endpoint.url}/v1",
            "COPILOT_PROVIDER_API_KEY": endpoint.key,
            "COPILOT_MODEL": endpoint.model,
            "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": str(endpoint.context_length - output_tokens),
            "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": str(output_tokens),
            # Otherwise it asks for a GitHub account, and sends telemetry.
            "COPILOT_OFFLINE": "true",
        }
    )


def _pi(endpoint: Endpoint) -> LaunchPlan:
    model = {
        "id": endpoint.model,
        "name": endpoint.model,
        "contextWindow": endpoint.context_length,
        "maxTokens": endpoint.context_length // 4,
    }
    provider = {
        "baseUrl": f"{endpoint.url}/v1",
        "apiKey": "MLXCTL_API_KEY",
        "api": "openai-completions",
        "models": [model],
    }
    # In a short context the defaults would summarize the conversation after every answer.
    quarter = endpoint.context_length // 4
    compaction = {
        "reserveTokens": min(_PI_RESERVE_TOKENS, quarter),
        "keepRecentTokens": min(_PI_RECENT_TOKENS, quarter),
    }
    # pi reads providers from a directory only; this directory is private and holds nothing else.
    files = {
        "models.json": json.dumps({"providers": {"mlxctl": provider}}, indent=2),
        "settings.json": json.dumps({"compaction": compaction}, indent=2),
    }
    return LaunchPlan(
        arguments=("--provider", "mlxctl", "--model", endpoint.model),
        environment={"PI_CODING_AGENT_DIR": "{directory}", "MLXCTL_API_KEY": endpoint.key},
        files=files,
    )


CLIENTS = {
    client.name: client
    for client in (
        Client(
            name="claude",
            executable="claude",
            install="npm install -g @anthropic-ai/claude-code",
            min_context=44_000,
            plan=_claude,
        ),
        Client(
            name="codex",
            executable="codex",
            install="npm install -g @openai/codex",
            min_context=20_000,
            plan=_codex,
        ),
        Client(
            name="opencode",
            executable="opencode",
            install="npm install -g opencode-ai",
            min_context=20_000,
            plan=_opencode,
        ),
        Client(
            name="copilot",
            executable="copilot",
            install="npm install -g @github/copilot",
            min_context=24_000,
            plan=_copilot,
        ),
        Client(
            name="pi",
            executable="pi",
            install="npm install -g @earendil-works/pi-coding-agent",
            min_context=8_000,
            plan=_pi,
        ),
    )
}


def write_files(plan: LaunchPlan, directory: Path) -> dict[str, str]:
    """Write the plan's files, owner-only, and return its environment.

    The environment names their directory.
    """
    if plan.files:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in plan.files.items():
        path = directory / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    return {
        name: value.replace("{directory}", str(directory)) if name.endswith("_DIR") else value
        for name, value in plan.environment.items()
    }
