"""`mlxctl models convert` and `import`: new models from others."""

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import click

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import INTERRUPTED, report_errors
from mlxctl.cli.options import AsJson, ConfigFile, print_json
from mlxctl.cli.parameters import Argument, Option
from mlxctl.cli.served_directories import open_library
from mlxctl.ir.errors import describe_bytes
from mlxctl.state.locations import expand_user
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.library import Library, NamedDirectory


@command(epilog="Example: mlxctl models convert Qwen/Qwen3-8B --bits 4")
def convert(
    source: Annotated[
        str,
        Argument(
            metavar="MODEL",
            help="Model of the library, alias, directory, or hub repository ORGANIZATION/NAME.",
        ),
    ],
    bits: Annotated[
        int | None,
        Option(metavar="NUMBER", help="2, 3, 4, 5, 6 or 8.  [default: 4]"),
    ] = None,
    group_size: Annotated[
        int | None,
        Option(
            metavar="NUMBER",
            help="Weights with a common scale: 32, 64 or 128.  [default: 64]",
        ),
    ] = None,
    mode: Annotated[
        str | None,
        Option(
            metavar="MODE",
            offers=("affine", "mxfp4", "nvfp4", "mxfp8"),
            help="affine, mxfp4, nvfp4 or mxfp8.  [default: affine]",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        Option(
            metavar="RECIPE",
            offers=("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"),
            help="More bits for some layers: mixed_2_6, mixed_3_4, mixed_3_6 or mixed_4_6.",
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        Option(
            metavar="DTYPE",
            offers=("float16", "bfloat16", "float32"),
            help="float16, bfloat16 or float32 for weights that are not quantized; alone: for all.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        Option(metavar="NAME", help="Name of the new model.  [default: NAME-4bit and such]"),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace a model of this name.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Convert a model to the MLX format, and quantize it.

    mlx-lm does it, in a process of its own. A repository is downloaded first, and stays in the cache. Code of
    a model is never run.
    """
    with report_errors():
        from mlxctl.library.conversion.mlx_lm_conversion import Conversion, convert_model
        from mlxctl.library.conversion.new_directory import check_name

        conversion = Conversion(bits=bits, group_size=group_size, mode=mode, recipe=recipe, dtype=dtype)
        library = open_library(config)
        new_name = name or f"{_last_part(source)}-{conversion.label}"
        target = check_name(new_name, library, replaces=force)
        found = _find(source, library, is_quiet=as_json)
        with _progress(new_name, is_quiet=as_json) as progress:
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
    from mlxctl.cli.models.downloads import download, missing_repository

    repository = missing_repository(name, library)
    if repository is None:
        return library.resolve(name)
    echo(f"mlxctl: {repository} is not on this machine; downloading it", err=True)
    download(repository, library.hub_cache, is_quiet=is_quiet)
    return library.resolve(repository)


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._]+")


@command("import", epilog="Example: mlxctl models import ~/Downloads/Qwen3-8B-Q4_K_M.gguf")
def import_gguf(
    source: Annotated[
        str,
        Argument(
            metavar="FILE",
            help="A GGUF file (of parts the first), or a model that Ollama has, such as ollama:llama3.2:1b.",
        ),
    ],
    name: Annotated[
        str | None,
        Option(metavar="NAME", help="Name of the new model.  [default: of the file]"),
    ] = None,
    bits: Annotated[
        int | None,
        Option(
            metavar="NUMBER",
            help="Quantize to 2, 3, 4, 5, 6 or 8 bits.  [default: as near to the file as possible]",
        ),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace a model of this name.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Import a GGUF file, or a model of Ollama.

    Writes a model directory for MLX; the file stays as it is. F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1
    keep their values; Q4_K and Q5_K are rounded; other types are quantized again. OLLAMA_MODELS names
    another directory of Ollama.
    """
    with report_errors():
        from mlxctl.library.conversion import gguf_import, ollama
        from mlxctl.library.conversion.gguf_parts import name_of_parts
        from mlxctl.library.conversion.new_directory import check_name
        from mlxctl.state.locations import expand_user

        if bits is not None and bits not in gguf_import.QUANTIZED_BITS:
            raise click.BadParameter("must be 2, 3, 4, 5, 6 or 8", param_hint="'--bits'")
        found = (
            ollama.find_ollama_model(source.removeprefix(ollama.PREFIX))
            if source.startswith(ollama.PREFIX)
            else None
        )
        file = found.file if found else expand_user(source)
        target = check_name(
            name or _NOT_IN_NAMES.sub("-", found.short_name if found else name_of_parts(file)).strip("-."),
            open_library(config),
            replaces=force,
        )
        new_name = name or target.name
        with _progress(new_name, is_quiet=as_json) as progress:
            model = gguf_import.import_gguf(
                file,
                target,
                origin=source if found else file.name,
                bits=bits,
                sha256=found.sha256 if found else None,
                progress=progress,
            )
    notes = [
        *model.notes,
        *(["Ollama's projector for images is left out"] if found and found.has_projector else []),
    ]
    if as_json:
        print_json(
            {
                "model": new_name,
                "path": str(model.path),
                "num_bytes": model.num_bytes,
                "sha256": model.sha256,
                "weights": model.changes,
                "notes": notes,
            }
        )
        return
    for line in (*model.changes, *notes):
        echo(line)
    echo(
        f"imported {new_name} ({describe_bytes(model.num_bytes)}). Try: mlxctl serve {shlex.quote(new_name)}"
    )


@contextmanager
def _progress(title: str, *, is_quiet: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function for the bytes that are done, and all.

    Ctrl-C ends the command.
    """
    from mlxctl.cli.console import byte_progress

    try:
        with byte_progress(title, is_quiet=is_quiet) as update:
            yield update
    except KeyboardInterrupt:
        echo("mlxctl: stopped; nothing was kept", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
