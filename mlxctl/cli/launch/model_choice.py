"""Chooses a server's model that suffices for a coding agent.

Says why others do not. Pure but for the library.
"""

import shlex
from collections.abc import Iterable, Sequence
from contextlib import closing

from msgspec import structs

from mlxctl.cli.launch.clients import Client
from mlxctl.inference.remote import RemoteModel
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


def lacks(model: RemoteModel, client: Client) -> str | None:
    """Return why the model does not suffice for the client.

    None if it does. Other servers do not say whether a model calls tools; theirs may well.
    """
    if model.problem is not None:
        return model.problem
    if not model.can_chat:
        return "generates no text"
    probed = _probed_tools(model)
    if probed == "no" or (probed != "yes" and model.supports_tools is False):
        how = "its chat template has no tools" if probed is None else "probing found no tool calls"
        return f"cannot call tools ({how})"
    if model.context_length is not None and model.context_length < client.min_context:
        return f"context of {model.context_length:,} tokens; {client.name} needs {client.min_context:,}"
    return None


def choose_model(
    models: Sequence[RemoteModel], client: Client, *, wanted: str | None, other_names: Sequence[str] = ()
) -> RemoteModel:
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
    usable = [model for model in models if lacks(model, client) is None]
    if not usable:
        raise ClientNotReady(_no_model(models, client))
    return max(
        usable, key=lambda model: (model.is_loaded, _probed_tools(model) is not None, model.size_bytes or 0)
    )


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


def library_candidates(settings: Settings, client: Client) -> list[RemoteModel]:
    """Return the models of this machine's library, fitting ones first.

    As they could be served. Reads files; takes some milliseconds a model.
    """
    library = Library(settings.library)
    machine = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes)
    found: list[RemoteModel] = []
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


def _check_suffices(model: RemoteModel, client: Client, *, wanted: str) -> None:
    if (reason := lacks(model, client)) is not None:
        raise ClientNotReady(f"{wanted} does not suffice for {client.name}: {reason}")


def _probed_tools(model: RemoteModel) -> str | None:
    return (model.probed or {}).get("tools")


def _as_served(model: ModelDescription, knowledge: CapabilityLookup, library: Library) -> RemoteModel:
    """Return what a server would say of a model of this machine."""
    verdicts = {} if model.problem else dict(knowledge.of(model.name, model.path, library).verdicts)
    return RemoteModel(
        name=model.name,
        state="not_loaded",
        max_model_len=model.context_length,
        supports_tools=verdicts.get("tools", "yes" if model.takes_tools else "no") == "yes",
        probed=verdicts,
        kind=model.detection.kind,
        size_bytes=model.disk_bytes,
        problem=model.problem,
    )


def _no_model(models: Iterable[RemoteModel], client: Client) -> str:
    reasons = [f"\n  {escape_line(f'{model.name}: {lacks(model, client)}')}" for model in models]
    return (
        f"no model suffices for {client.name}, which needs tool calls and {client.min_context:,} tokens "
        f"of context{':' if reasons else '.'}{''.join(reasons)}\n"
        "`mlxctl models recommend` lists models that fit, `mlxctl models pull ORGANIZATION/NAME` downloads "
        "one; or name one with --model"
    )
