"""Chooses a server's model that suffices for a coding agent.

Says why others do not. Pure but for the library.
"""

import shlex
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

import msgspec
from msgspec import structs

from mlxctl.cli.launch.clients import Client
from mlxctl.ir.errors import ClientNotReady, ModelNotFoundOnDisk
from mlxctl.library import (
    Library,
    ModelDescription,
    describe_model,
    fit_model,
    this_machine,
)
from mlxctl.library.capability_lookup import CapabilityLookup, open_capability_lookup
from mlxctl.state.settings import Settings
from mlxctl.terminal_text import escape_line

# Kinds of models that generate no text.
_OTHER_KINDS = ("embeddings", "reranker", "speech-to-text", "text-to-speech")


class _Card(msgspec.Struct):
    id: str
    probed: dict[str, str] | None = None
    supports_tools: bool | None = None
    max_model_len: int | None = None
    max_input_tokens: int | None = None
    state: str = "loaded"
    kind: str | None = None
    size_bytes: int | None = None
    problem: str | None = None


class AvailableModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that could be launched with.

    `supports_tools` is what probing found, else what the chat template says (`is_probed` tells which).
    `context_length` is in tokens, None if unknown. `weights_bytes` orders models that suffice.
    """

    name: str
    context_length: int | None
    supports_tools: bool
    is_probed: bool = False
    is_loaded: bool = False
    is_text: bool = True
    weights_bytes: int = 0
    problem: str | None = None

    @classmethod
    def of_card(cls, card: dict[str, Any]) -> "AvailableModel":
        """Read an entry of `GET /v1/models`.

        Of one with fields of other types, only the name is used.
        """
        try:
            found = msgspec.convert(card, _Card)
        except msgspec.ValidationError:
            found = _Card(id=card["id"])
        probed = found.probed or {}
        # Other servers do not say; their models may well.
        supports_tools = found.supports_tools is not False
        if probed.get("tools") in ("yes", "no"):
            supports_tools = probed["tools"] == "yes"
        return cls(
            name=found.id,
            context_length=found.max_model_len or found.max_input_tokens,
            supports_tools=supports_tools,
            is_probed="tools" in probed,
            is_loaded=found.state == "loaded",
            is_text=found.kind not in _OTHER_KINDS,
            weights_bytes=found.size_bytes or 0,
            problem=found.problem,
        )

    def lacks(self, client: Client) -> str | None:
        """Return why the model does not suffice for the client.

        None if it does.
        """
        if self.problem is not None:
            return self.problem
        if not self.is_text:
            return "generates no text"
        if not self.supports_tools:
            how = "probing found no tool calls" if self.is_probed else "its chat template has no tools"
            return f"cannot call tools ({how})"
        if self.context_length is not None and self.context_length < client.min_context:
            return f"context of {self.context_length:,} tokens; {client.name} needs {client.min_context:,}"
        return None


def choose_model(
    models: Sequence[AvailableModel], client: Client, *, wanted: str | None, other_names: Sequence[str] = ()
) -> AvailableModel:
    """Return the model named `wanted`, else the best that suffices.

    `other_names` are further names of the wanted model. The best is loaded already, then probed, then has the
    most weights. Raises ClientNotReady with the reason for each model.
    """
    if wanted is not None:
        named = [model for name in (wanted, *other_names) for model in models if model.name == name]
        if not named:
            names = ", ".join(escape_line(model.name) for model in models) or "none"
            raise ClientNotReady(
                f"the running server has no model {wanted!r}; it has {names}. For another model: "
                f"mlxctl serve {shlex.quote(wanted)} --port 8081, then --url http://127.0.0.1:8081 here"
            )
        _check_suffices(named[0], client, wanted=wanted)
        return named[0]
    usable = [model for model in models if model.lacks(client) is None]
    if not usable:
        raise ClientNotReady(_no_model(models, client))
    return max(usable, key=lambda model: (model.is_loaded, model.is_probed, model.weights_bytes))


def served_names(settings: Settings, name: str) -> list[str]:
    """Return the names under which a server has this model.

    A path is served under the name of its directory. Empty for a model that is not on this machine.
    """
    library = Library(settings.library)
    try:
        found = library.resolve(name)
    except ModelNotFoundOnDisk:
        return []
    return [found.name, *library.names_of(found.path)]


def library_candidates(settings: Settings, client: Client) -> list[AvailableModel]:
    """Return the models of this machine's library, fitting ones first.

    As they could be served. Reads files; takes some milliseconds a model.
    """
    library = Library(settings.library)
    machine = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes)
    found: list[AvailableModel] = []
    with closing(open_capability_lookup()) as knowledge:
        for entry in library.entries():
            model = library.describe(entry)
            available = _as_served(model, knowledge, library)
            fit = fit_model(model, machine, context_tokens=client.min_context) if not model.problem else None
            if fit is not None and fit.fits is False:
                problem = f"does not fit this machine with a context of {client.min_context:,} tokens"
                available = structs.replace(available, problem=problem)
            found.append(available)
    return found


def check_local_model(settings: Settings, client: Client, name: str) -> None:
    """Raise for a local model that would be loaded in vain.

    ModelNotFoundOnDisk for an unknown one, ClientNotReady with the reason for one that does not suffice.
    """
    library = Library(settings.library)
    found = library.resolve(name)
    with closing(open_capability_lookup()) as knowledge:
        model = _as_served(describe_model(found.path, name=found.name), knowledge, library)
    _check_suffices(model, client, wanted=name)


def _check_suffices(model: AvailableModel, client: Client, *, wanted: str) -> None:
    if (reason := model.lacks(client)) is not None:
        raise ClientNotReady(f"{wanted} does not suffice for {client.name}: {reason}")


def _as_served(model: ModelDescription, knowledge: CapabilityLookup, library: Library) -> AvailableModel:
    """Return what a server would say of a model of this machine."""
    verdicts = {} if model.problem else dict(knowledge.of(model.name, model.path, library).verdicts)
    return AvailableModel(
        name=model.name,
        context_length=model.context_length,
        supports_tools=verdicts.get("tools", "yes" if model.takes_tools else "no") == "yes",
        is_probed="tools" in verdicts,
        is_text=model.detection.kind not in _OTHER_KINDS,
        weights_bytes=model.disk_bytes,
        problem=model.problem,
    )


def _no_model(models: Iterable[AvailableModel], client: Client) -> str:
    reasons = [f"\n  {escape_line(f'{model.name}: {model.lacks(client)}')}" for model in models]
    return (
        f"no model suffices for {client.name}, which needs tool calls and {client.min_context:,} tokens "
        f"of context{':' if reasons else '.'}{''.join(reasons)}\n"
        "`mlxctl models recommend` lists models that fit, `mlxctl models pull ORGANIZATION/NAME` downloads "
        "one; or name one with --model"
    )
