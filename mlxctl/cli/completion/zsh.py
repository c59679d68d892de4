"""The script for zsh: a function for each command, in the words of `_arguments`."""

from collections.abc import Iterator

from mlxctl.cli.completion.tree import Command, Option, Value

_HEAD = """\
#compdef mlxctl
# Completion of mlxctl for zsh. Made by `mlxctl completion zsh`; do not edit.

_mlxctl_names() {
    local -a names
    names=(${(f)"$(mlxctl completion $1 2>/dev/null)"})
    compadd -a names
}
"""
_TAIL = """\
if [ "$funcstack[1]" = "_mlxctl" ]; then
    _mlxctl "$@"
else
    compdef _mlxctl mlxctl
fi
"""
_ACTIONS = {
    "models": "{_mlxctl_names models}",
    "agents": "{_mlxctl_names agents}",
    "files": "_files",
    "directories": "_files -/",
}


def zsh_script(commands: tuple[Command, ...]) -> str:
    """Return the script; it can be sourced after compinit, or lie in $fpath as `_mlxctl`."""
    functions = [
        _group(command, commands) if command.children else _leaf(command) for command in reversed(commands)
    ]
    return "\n".join((_HEAD, *functions, _TAIL))


def _group(command: Command, commands: tuple[Command, ...]) -> str:
    children = [
        child
        for child in commands
        if child.path and _parent(child) == command.path and child.name in command.children
    ]
    described = "\n".join(
        f"            {_quoted(f'{child.name}:{_escaped(child.help)}')}" for child in children
    )
    chosen = "\n".join(f"            {child.name}) {_function(child)} ;;" for child in children)
    return f"""\
{_function(command)}() {{
    local state
    _arguments -C \\
{_options(command)}
        '1: :->command' '*:: :->rest'
    case "$state" in
    command)
        local -a commands
        commands=(
{described}
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
{chosen}
        esac ;;
    esac
}}
"""


def _leaf(command: Command) -> str:
    action = _action(command.argument) if command.argument else ""
    argument = f"        '*: :{action}'" if action else "        && return"
    return f"{_function(command)}() {{\n    _arguments \\\n{_options(command)}\n{argument}\n}}\n"


def _options(command: Command) -> str:
    return "\n".join(
        f"        {spelling} \\" for option in command.options for spelling in _spellings(option)
    )


def _spellings(option: Option) -> Iterator[str]:
    value = "" if option.value is None else f": :{_action(option.value)}"
    return (_quoted(f"*{name}[{_escaped(option.help)}]{value}") for name in option.names)


def _action(value: Value) -> str:
    return f"({value.words})" if value.kind == "words" else _ACTIONS.get(value.kind, "")


def _function(command: Command) -> str:
    return "_".join(("_mlxctl", *command.path.split()))


def _parent(command: Command) -> str:
    return command.path.rpartition(" ")[0]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def _quoted(text: str) -> str:
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"
