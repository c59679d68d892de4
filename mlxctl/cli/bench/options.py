"""Options of all scenario commands; `bench probe` shares some of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mlxctl.cli.parameters import Argument, Option

Model = Annotated[
    str | None,
    Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="Model to serve, or with --url a model of that server.  [default: demo model]",
    ),
]
Url = Annotated[
    str | None, Option(metavar="URL", help="Measure the server at this URL instead of starting one.")
]
ApiKey = Annotated[str | None, Option(envvar="MLXCTL_API_KEY", metavar="KEY", help="Key for that server.")]
Against = Annotated[
    str | None,
    Option(metavar="URL", help="Measure this server too, in alternating rounds, and print the ratios."),
]
AgainstModel = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="Model of the other server; required if it lists none.  [default: its first]",
    ),
]
AgainstKey = Annotated[
    str | None, Option(envvar="MLXCTL_AGAINST_KEY", metavar="KEY", help="Key for the other server.")
]
Rounds = Annotated[
    int,
    Option(min=1, max=1000, metavar="NUMBER", help="Measured rounds; figures are medians over rounds."),
]
Warmups = Annotated[int, Option(min=0, max=100, metavar="NUMBER", help="Rounds before the measured ones.")]
Seed = Annotated[int, Option(metavar="NUMBER", help="Seed of the prompts and their lengths.")]
Bandwidth = Annotated[
    float | None,
    Option(
        min=0.001,
        metavar="GB/S",
        help="Memory bandwidth for the ceiling.  [default: that published for the Apple chip]",
    ),
]
Out = Annotated[
    Path | None,
    Option(
        metavar="PATH",
        help="File or directory for the result.  [default: ~/.local/state/mlxctl/bench/SCENARIO-TIME.json]",
    ),
]
AsJson = Annotated[bool, Option("--json", help="Print the whole result as JSON and nothing else.")]
ServeOptions = Annotated[
    list[str] | None,
    Argument(
        metavar="-- SERVE OPTIONS",
        help="Options of `mlxctl serve` for the server that is started, after `--`; not with --url.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """Values of the options.

    Fields are in the order of the help page.
    """

    serve_options: ServeOptions = None
    model: Model = None
    url: Url = None
    api_key: ApiKey = None
    against: Against = None
    against_model: AgainstModel = None
    against_key: AgainstKey = None
    rounds: Rounds = 5
    warmups: Warmups = 1
    seed: Seed = 1
    bandwidth: Bandwidth = None
    out: Out = None
    as_json: AsJson = False
