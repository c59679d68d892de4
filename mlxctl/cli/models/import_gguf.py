"""`mlxctl models import`."""

import re
import shlex
from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.models import open_library
from mlxctl.cli.options import AsJson, ConfigFile, print_json
from mlxctl.ir.errors import describe_bytes
from mlxctl.terminal_text import echo

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._]+")

app = create_app()


@app.command("import", epilog="Example: mlxctl models import ~/Downloads/Qwen3-8B-Q4_K_M.gguf")
def import_gguf(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A GGUF file (of parts the first), or a model that Ollama has, such as ollama:llama3.2:1b.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of the new model.  [default: of the file]", show_default=False
        ),
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Quantize to 2, 3, 4, 5, 6 or 8 bits.  [default: as near to the file as possible]",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model of this name.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Import a GGUF file, or a model of Ollama.

    Writes a model directory for MLX; the file stays as it is. F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1
    keep their values; Q4_K and Q5_K are rounded; other types are quantized again. OLLAMA_MODELS names
    another directory of Ollama.
    """
    with report_errors():
        from mlxctl.cli.models.progress import byte_progress
        from mlxctl.library.conversion import gguf_import, ollama
        from mlxctl.library.conversion.gguf_parts import name_of_parts
        from mlxctl.library.conversion.new_directory import check_name
        from mlxctl.state.locations import expand_user

        if bits is not None and bits not in gguf_import.QUANTIZED_BITS:
            raise typer.BadParameter("must be 2, 3, 4, 5, 6 or 8", param_hint="'--bits'")
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
        with byte_progress(new_name, is_quiet=as_json) as progress:
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
