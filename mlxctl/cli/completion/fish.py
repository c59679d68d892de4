"""The script for fish: one line for each thing that can be completed."""

from collections.abc import Iterator

from mlxctl.cli.completion.tree import Command, Option, Value

_HEAD = """\
# Completion of mlxctl for fish. Made by `mlxctl completion fish`; do not edit.

# The command that is being typed: words that name one, options and what follows them left out.
function __mlxctl_at
    set -l path
    for word in (commandline -opc)[2..-1]
        if contains -- "$path $word" $__mlxctl_paths
            set path "$path $word"
        end
    end
    test "$path" = "$argv[1]"
end

complete -c mlxctl -f
"""


def fish_script(commands: tuple[Command, ...]) -> str:
    """Return the script."""
    paths = " ".join(f"' {command.path}'" for command in commands if command.path)
    lines = [line for command in commands for line in _lines(command, commands)]
    return f"{_HEAD}set -g __mlxctl_paths {paths}\n\n" + "\n".join(lines) + "\n"


def _lines(command: Command, commands: tuple[Command, ...]) -> Iterator[str]:
    where = f"complete -c mlxctl -n \"__mlxctl_at '{f' {command.path}'.rstrip()}'\""
    for name in command.children:
        child = next(child for child in commands if child.path == f"{command.path} {name}".strip())
        yield f"{where} -a {name} -d {_quoted(child.help)}"
    if command.argument is not None and (offer := _offer(command.argument)):
        yield f"{where} {offer}"
    yield from (f"{where} {_option(option)}" for option in command.options)


def _option(option: Option) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    value = "" if option.value is None else f" {_offer(option.value) or '-x'}"
    return f"{names}{value} -d {_quoted(option.help)}"


def _offer(value: Value) -> str:
    match value.kind:
        case "models" | "agents":
            return f"-x -a '(mlxctl completion {value.kind} 2>/dev/null)'"
        case "files":
            return "-r -F"
        case "directories":
            return "-x -a '(__fish_complete_directories)'"
        case "words":
            return f"-x -a '{value.words}'"
        case _:
            return ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
