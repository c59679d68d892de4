"""`mlxctl models convert`."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.models import open_library
from mlxctl.cli.options import AsJson, ConfigFile, print_json
from mlxctl.ir.errors import describe_bytes
from mlxctl.state.locations import expand_user
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.library import Library, NamedDirectory

app = create_app()


@app.command(epilog="Example: mlxctl models convert Qwen/Qwen3-8B --bits 4")
def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="Model of the library, alias, directory, or hub repository ORGANIZATION/NAME.",
        ),
    ],
    bits: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="2, 3, 4, 5, 6 or 8.  [default: 4]", show_default=False),
    ] = None,
    group_size: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Weights with a common scale: 32, 64 or 128.  [default: 64]",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="MODE", help="affine, mxfp4, nvfp4 or mxfp8.  [default: affine]", show_default=False
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="RECIPE",
            help="More bits for some layers: mixed_2_6, mixed_3_4, mixed_3_6 or mixed_4_6.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="DTYPE",
            help="float16, bfloat16 or float32 for weights that are not quantized; alone: for all.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of the new model.  [default: NAME-4bit and such]", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model of this name.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Convert a model to the MLX format, and quantize it.

    mlx-lm does it, in a process of its own. A repository is downloaded first, and stays in the cache. Code of
    a model is never run.
    """
    with report_errors():
        from mlxctl.cli.models.progress import byte_progress
        from mlxctl.library.conversion.mlx_lm_conversion import Conversion, convert_model
        from mlxctl.library.conversion.new_directory import check_name

        conversion = Conversion(bits=bits, group_size=group_size, mode=mode, recipe=recipe, dtype=dtype)
        library = open_library(config)
        new_name = name or f"{_last_part(source)}-{conversion.label}"
        target = check_name(new_name, library, replaces=force)
        found = _find(source, library, is_quiet=as_json)
        with byte_progress(new_name, is_quiet=as_json) as progress:
            model = convert_model(found.path, target, conversion, origin=found.name, progress=progress)
    if as_json:
        print_json(
            {
                "model": new_name,
                "path": str(target),
                "num_bytes": model.num_bytes,
                "weights": conversion.description,
                "notes": model.notes,
            }
        )
        return
    for note in model.notes:
        echo(note)
    made = f"converted {found.name} to {new_name} ({describe_bytes(model.num_bytes)})"
    echo(f"{made}. Try: mlxctl serve {shlex.quote(new_name)}")


def _last_part(source: str) -> str:
    """Return the name of a model without organization or folders."""
    from mlxctl.library.names import plain_name

    path = expand_user(source)
    return path.resolve().name if path.is_dir() else plain_name(source).rpartition("/")[2].replace(":", "-")


def _find(name: str, library: "Library", *, is_quiet: bool) -> "NamedDirectory":
    """Return the model to convert. Raises ModelError.

    A hub repository is downloaded first.
    """
    from mlxctl.cli.models.pull import download, missing_repository

    repository = missing_repository(name, library)
    if repository is None:
        return library.resolve(name)
    echo(f"mlxctl: {repository} is not on this machine; downloading it", err=True)
    download(repository, library.hub_cache, is_quiet=is_quiet)
    return library.resolve(repository)
