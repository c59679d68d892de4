"""`mlxctl models fit`."""

from dataclasses import replace
from typing import Annotated

import typer

from mlxctl.cli.failures import plain_failures
from mlxctl.cli.models.shared_options import AsJson, ConfigFile, read_settings
from mlxctl.cli.options import setting
from mlxctl.settings import ModelSettings

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Models of the library, aliases, or directories.")
]
Context = Annotated[
    int | None,
    typer.Option("--context", min=1, metavar="TOKENS", help="Length of the conversation.  [default: 8192]"),
]
Bits = Annotated[str | None, setting(ModelSettings, "kv_bits", "--kv-bits", metavar="BITS")]
Group = Annotated[str | None, setting(ModelSettings, "kv_group_size", "--kv-group-size", metavar="NUMBER")]
Macs = Annotated[
    bool, typer.Option("--macs", help="For every Apple chip and memory size instead of this machine.")
]


@app.command(epilog="Example: mlxctl models fit mlx-community/Qwen3-8B-4bit --context 32768 --macs")
def fit(
    names: Names,
    context: Context = None,
    kv_bits: Bits = None,
    kv_group_size: Group = None,
    macs: Macs = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Estimate whether models fit this machine, and their maximum speed.

    Needed memory is weights, cache of one conversation, and an estimate of what reading a prompt takes. The
    speed is a prediction: memory bandwidth divided by the weight bytes and cache bytes that each token reads.
    Real speed stays below it.
    """
    with plain_failures():
        settings = read_settings(config, {"model": {"kv_bits": kv_bits, "kv_group_size": kv_group_size}})
        from mlxctl.cli.models.fitting import print_fits, work_out

        if kv_bits is not None:
            # Asked about the models named here, whatever a server would do with one of them.
            settings = replace(settings, pool=replace(settings.pool, kv_bits_by_name={}))
        rows = work_out(names, settings, context_tokens=context, on_macs=macs)
    print_fits(rows, as_json=as_json)
