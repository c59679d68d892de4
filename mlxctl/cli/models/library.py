"""`mlxctl models ls`, `info`, `rm` and `alias`: the models on this machine."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.options import AsJson, ConfigFile, print_json, read_settings
from mlxctl.cli.parameters import Argument, Option
from mlxctl.cli.served_directories import find_directory, open_library
from mlxctl.ir.errors import describe_bytes
from mlxctl.state.locations import expand_user
from mlxctl.state.settings import remove_alias, settings_file, write_alias
from mlxctl.terminal_text import echo, escape_control_characters

if TYPE_CHECKING:
    from mlxctl.ir import AdapterVerdict
    from mlxctl.library import ModelDescription
    from mlxctl.library.capability_lookup import ProbedModel


@command(epilog="Example: mlxctl models ls --json")
def ls(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """List the models on this machine."""
    with report_errors():
        settings = read_settings(config)
        from mlxctl.cli.models.tables import ListedModel, print_listing
        from mlxctl.library import Library, fit_model, this_machine
        from mlxctl.library.capability_lookup import open_capability_lookup

        library = Library(settings.library)
        machine = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes)
        rows = [
            ListedModel(entry, model, fit_model(model, machine))
            for entry in library.entries()
            for model in [library.describe(entry)]
        ]
        knowledge = open_capability_lookup()
        probed = {
            model.name
            for _, model, _ in rows
            if model.problem is None and knowledge.of(model.name, model.path, library).record
        }
        knowledge.close()
    if as_json:
        import msgspec

        from mlxctl.library.views import ModelView

        print_json(
            [
                {
                    **msgspec.to_builtins(ModelView.of(model, probed=model.name in probed)),
                    "path": str(model.path),
                    "origin": entry.origin,
                    "fits": fit.fits if fit else None,
                }
                for entry, model, fit in rows
            ]
        )
        return
    print_listing(rows, library, probed)


@command(epilog="Example: mlxctl models info mlx-community/Qwen3-8B-4bit")
def info(
    name: Annotated[
        str,
        Argument(
            metavar="NAME",
            offers="models",
            help="A model of the library or a running server, an alias, or a directory.",
        ),
    ],
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show what a model is, without loading it."""
    with report_errors():
        from mlxctl.library import describe_model, this_machine
        from mlxctl.library.capability_lookup import open_capability_lookup
        from mlxctl.library.draft_models import find_drafters
        from mlxctl.library.measured_speeds import MeasuredSpeeds

        library = open_library(config)
        found = find_directory(name, library)
        model = describe_model(found.path, name=found.name)
        knowledge = open_capability_lookup()
        known = knowledge.of(found.name, found.path, library)
        knowledge.close()
        verdict = _read_adapter(model, known)
        speeds = MeasuredSpeeds()
        speed = speeds.of(found.path, this_machine())
        speeds.close()
        drafters = find_drafters(model, map(library.describe, library.entries()))
    if as_json:
        import msgspec

        from mlxctl.library.views import ModelView

        view = msgspec.to_builtins(ModelView.of(model, probed=known.record is not None))
        adapter = msgspec.to_builtins(verdict)
        print_json(
            {
                **view,
                "path": str(model.path),
                "findings": dict(known.verdicts),
                "adapter": adapter,
                "measured_speed": msgspec.to_builtins(speed),
                "drafters": msgspec.to_builtins(drafters),
            }
        )
    else:
        from mlxctl.cli.models.facts import print_facts

        print_facts(model, known, verdict, speed, drafters, given_name=name)
    if model.problem is not None:
        echo(f"mlxctl: {model.problem}", err=True)
        raise click.exceptions.Exit(1)


def _read_adapter(model: "ModelDescription", known: "ProbedModel") -> "AdapterVerdict | None":
    """Return what the adapter detects in the chat template, without loading weights.

    None for a model that cannot be used or has no template.
    """
    from mlxctl.formats.adapters import create_adapter
    from mlxctl.ir.errors import BrokenModel
    from mlxctl.library import read_model

    if model.problem is not None or not model.has_template:
        return None
    try:
        adapter = create_adapter(read_model(model.path), name=model.name, capabilities=known.capabilities)
    except BrokenModel:
        return None
    return adapter.verdict


@command(epilog="Example: mlxctl models rm mlx-community/Qwen3-8B-4bit")
def rm(
    name: Annotated[str, Argument(metavar="NAME", offers="models", help="A model of the library.")],
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Delete a model from disk."""
    with report_errors():
        from mlxctl.library.names import plain_name

        entry = open_library(config).find(plain_name(name))
        from mlxctl.library.description import disk_bytes
        from mlxctl.library.removal import check_removable, remove_model

        check_removable(entry)
        num_bytes = disk_bytes(entry.path)
        if not yes:
            question = f"Remove {entry.name} ({describe_bytes(num_bytes)}) from {entry.folder}?"
            click.confirm(escape_control_characters(question), abort=True)
        remove_model(entry)
    if as_json:
        print_json({"removed": entry.name, "path": str(entry.folder), "num_bytes": num_bytes})
    else:
        echo(f"removed {entry.name} ({describe_bytes(num_bytes)})")


Target = Annotated[
    str | None,
    Argument(
        metavar="TARGET",
        offers="models",
        help="Model of the library, or directory, that the alias stands for.",
    ),
]


@command(epilog="Example: mlxctl models alias fast mlx-community/Qwen3-8B-4bit")
def alias(
    name: Annotated[str, Argument(metavar="NAME", help="The new name, written to the settings file.")],
    target: Target = None,
    remove: Annotated[bool, Option("--remove", help="Remove the alias instead.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Add a name for a model."""
    if remove != (target is None):
        raise click.BadParameter("give either a TARGET or --remove")
    file = config or settings_file(os.environ)
    with report_errors():
        if target is None:
            remove_alias(file, name)
        else:
            write_alias(file, name, _resolve_target(target, config))
    if as_json:
        print_json({"alias": name, "target": target, "file": str(file)})
    else:
        echo(f"{name} stands for {target}" if target else f"removed alias {name}")


def _resolve_target(target: str, config: Path | None) -> str:
    """Return the target as the settings file stores it; directories become absolute.

    Raises ModelNotFoundOnDisk.
    """
    from mlxctl.library.names import plain_name

    library = open_library(config if config and config.exists() else None)
    found = library.resolve(target)
    if target in library.aliases:
        return target
    return str(found.path.resolve()) if expand_user(target).is_dir() else plain_name(target)
