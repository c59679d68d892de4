"""`mlxctl chat`. Sampling is checked where the protocols check it, by whoever answers; here only what is no number is refused."""

import os
from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.failures import plain_failures
from mlxctl.cli.options import setting
from mlxctl.errors import SettingsError
from mlxctl.settings import ModelSettings, resolve

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Number = float | None
Option = typer.Option


@app.command(epilog="Example: mlxctl chat --url http://127.0.0.1:8080    or: echo hi | mlxctl chat --plain")
def chat(
    model: Annotated[str | None, setting(ModelSettings, "path", "--model", "-m", metavar="MODEL")] = None,
    url: Annotated[str | None, Option(help="Ask the server there instead; --model names one of its models.", metavar="URL")] = None,
    api_key: Annotated[str | None, Option(help="Key for that server.", envvar="MLXCTL_API_KEY", metavar="KEY")] = None,
    system: Annotated[str, Option(help="System prompt.", metavar="TEXT", show_default=False)] = "",
    temperature: Annotated[Number, Option(min=0, max=100, help="0 is greedy; without one, the model's default.")] = None,
    top_p: Annotated[Number, Option(min=0.001, max=1, help="Share of probability to draw from.")] = None,
    max_tokens: Annotated[int | None, Option(min=1, help="Longest answer.")] = None,
    tools: Annotated[bool, Option("--tools", help="Offer the built-in demo tools, a clock and a calculator.")] = False,
    ask_tools: Annotated[bool, Option("--ask-tools", help="As --tools, but ask what each call gives.")] = False,
    image: Annotated[
        list[Path] | None, Option(help="Show an image with the first question; may be repeated.", metavar="FILE")
    ] = None,
    last: Annotated[bool, Option("--continue", "-c", help="Go on with the last chat.")] = False,
    session: Annotated[str | None, Option(help="Go on with the chat whose id begins so; --list shows them.", metavar="ID")] = None,
    file: Annotated[Path | None, Option("--open", help="Go on with a chat that was exported as .json.", metavar="FILE")] = None,
    listing: Annotated[bool, Option("--list", help="List the chats that are kept, and end.")] = False,
    save: Annotated[bool, Option("--save/--no-save", help="Keep the chat, to be found and taken up again.")] = True,
    plain: Annotated[bool, Option("--plain", help="Lines of text: for pipes and screen readers.")] = False,
) -> None:
    """Chat with a model in the terminal, with a local engine or a running server."""
    with plain_failures():
        from mlxctl.tui.beginning import Beginning
        from mlxctl.tui.door import list_chats, run_chat
        from mlxctl.tui.options import ChatOptions
        from mlxctl.tui.partner import LocalPartner, Partner, RemotePartner

        if listing:
            list_chats("")
            raise typer.Exit
        if sum((last, session is not None, file is not None)) > 1:
            raise SettingsError("--continue, --session and --open exclude each other: a chat begins with one conversation")
        if not save and (last or session is not None):
            raise SettingsError("--no-save finds no kept chats: leave out --continue and --session, or --no-save")
        beginning = Beginning(is_last=last, session_id=session, file=file, keeps=save)
        chosen = {"model": {"path": None if url else model and Path(model)}}
        settings = resolve(environment=os.environ, flags=chosen)
        partner: Partner = RemotePartner(url, model=model, api_key=api_key) if url else LocalPartner(settings)
        options = ChatOptions(
            system_prompt=system,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            uses_tools=tools or ask_tools,
            asks_before_tools=ask_tools,
        )
        raise typer.Exit(run_chat(partner, options, beginning, images=image or (), is_plain=plain))
