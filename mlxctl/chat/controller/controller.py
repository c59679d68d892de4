"""Commands by name, and the driver that performs their effects."""

from collections.abc import Awaitable, Callable, Mapping

from mlxctl.chat.chat_commands import SlashCommand, UnknownCommand, read_input
from mlxctl.chat.controller import chat_commands, message_commands, option_commands
from mlxctl.chat.controller import effects as do
from mlxctl.chat.controller.asking import ask_typed
from mlxctl.chat.controller.compact import compact
from mlxctl.chat.controller.effects import Effect, Effects, Part
from mlxctl.chat.controller.speak import speak
from mlxctl.chat.controller.state import ChatState
from mlxctl.ir.errors import MlxctlError

Command = Callable[[ChatState, str], Effects]
"""A command; it takes the text after its name."""


def _opener(name: Part) -> Command:
    def command(_: ChatState, __: str) -> Effects:
        yield do.Open(name)

    return command


COMMANDS: Mapping[str, Command] = {
    "app.quit": _opener("quit"),
    "attach": option_commands.attach,
    "compact": compact,
    "copy": message_commands.copy,
    "delete": message_commands.delete,
    "edit_last": message_commands.edit,
    "editor": _opener("editor"),
    "export": chat_commands.export,
    "find": _opener("find"),
    "fork": message_commands.fork,
    "help": _opener("help"),
    "messages": message_commands.select,
    "models": option_commands.choose_model,
    "monitor": option_commands.monitor,
    "new": chat_commands.start,
    "regenerate": message_commands.retry,
    "sessions": chat_commands.load,
    "settings": option_commands.change_options,
    "sidebar": chat_commands.go_to_sidebar,
    "speak": speak,
    "statistics": option_commands.show_statistics,
    "stop": chat_commands.stop,
    "system": option_commands.set_system_prompt,
    "theme": option_commands.choose_theme,
    "tools": option_commands.offer_tools,
    "undo": message_commands.undo,
}
"""The commands by their action."""


def submit(chat: ChatState, text: str, *, shown: str | None = None) -> Effects:
    """Run a slash command, or ask a question.

    Only `shown` is searched for names of files, by default the text.
    """
    match read_input(text):
        case UnknownCommand(message=message):
            yield do.Restore(text)
            raise ValueError(message)
        case SlashCommand() as given:
            yield do.AddToHistory(text)
            yield from run(chat, given)
        case str() as question:
            # Of `//word` one slash is sent.
            searched = (shown or text)[len(text) - len(question) :]
            yield from ask_typed(chat, question, typed=text, shown=searched)


def run(chat: ChatState, given: SlashCommand) -> Effects:
    """Run a slash command."""
    if given.command.needs_screen and not chat.has_input:
        raise ValueError(f"/{given.name} works in the full-screen chat only (without --plain).")
    return COMMANDS[given.command.action](chat, given.argument)


class _Suspended:
    """Result of an effect that goes on elsewhere."""


SUSPENDED = _Suspended()
"""Ends `perform_all`: what finishes the effect calls it again with the result."""


async def perform_all(
    effects: Effects, perform: Callable[[Effect], Awaitable[object]], *, result: object = None
) -> None:
    """Perform the effects of a command in turn.

    `result` is the result of the previous effect. An error that the command does not handle is shown to the
    user.
    """
    error: MlxctlError | None = None
    while True:
        try:
            effect = effects.send(result) if error is None else effects.throw(error)
        except StopIteration:
            return
        except (MlxctlError, ValueError) as problem:
            is_mistake = isinstance(problem, ValueError)
            await perform(do.Notify(str(problem), "warning" if is_mistake else "error"))
            return
        result = error = None
        try:
            result = await (effect.function() if isinstance(effect, do.Call) else perform(effect))
        except MlxctlError as raised:
            error = raised
        except BaseException:
            effects.close()
            raise
        if result is SUSPENDED:
            return
