"""The script for bash, also for the old one that macOS brings: tables as case statements, no arrays of words
to look up.
"""

from collections.abc import Iterator

from mlxctl.cli.completion.tree import Command, Value

_HEAD = """\
# Completion of mlxctl for bash. Made by `mlxctl completion bash`; do not edit.
"""
_TAIL = """\
_mlxctl_offer() {
    case "$1" in
        models|agents) COMPREPLY=($(compgen -W "$(mlxctl completion "$1" 2>/dev/null)" -- "$2")) ;;
        files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$2")) ;;
        directories) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$2")) ;;
        words:*) COMPREPLY=($(compgen -W "${1#words:}" -- "$2")) ;;
    esac
}

_mlxctl() {
    local path="" index word current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
    COMPREPLY=()
    for ((index = 1; index < COMP_CWORD; index++)); do
        word="${COMP_WORDS[index]}"
        case "$word" in
            --) return ;;
            -*) [ -n "$(_mlxctl_value "$path $word")" ] && ((index++)) ;;
            *) case " $(_mlxctl_children "$path") " in *" $word "*) path="$path $word" ;; esac ;;
        esac
    done
    local value="$(_mlxctl_value "$path $previous")"
    if [ -n "$value" ]; then
        _mlxctl_offer "$value" "$current"
    elif [ "${current:0:1}" = "-" ]; then
        COMPREPLY=($(compgen -W "$(_mlxctl_options "$path")" -- "$current"))
    elif [ -n "$(_mlxctl_children "$path")" ]; then
        COMPREPLY=($(compgen -W "$(_mlxctl_children "$path")" -- "$current"))
    else
        _mlxctl_offer "$(_mlxctl_argument "$path")" "$current"
    fi
}

complete -F _mlxctl mlxctl
"""


def bash_script(commands: tuple[Command, ...]) -> str:
    """Return the script."""
    tables = (
        _table(
            "children",
            ((_path(command), " ".join(command.children)) for command in commands if command.children),
        ),
        _table("options", ((_path(command), " ".join(_names(command))) for command in commands)),
        _table("value", _values(commands)),
        _table(
            "argument",
            ((_path(command), _kind(command.argument)) for command in commands if command.argument),
        ),
    )
    return "\n".join((_HEAD, *tables, _TAIL))


def _table(name: str, rows: Iterator[tuple[str, str]]) -> str:
    lines = "".join(f'        "{key}") echo "{value}" ;;\n' for key, value in rows)
    return f'_mlxctl_{name}() {{\n    case "$1" in\n{lines}    esac\n}}\n'


def _values(commands: tuple[Command, ...]) -> Iterator[tuple[str, str]]:
    for command in commands:
        for option in command.options:
            if option.value is not None:
                yield from ((f"{_path(command)} {name}", _kind(option.value)) for name in option.names)


def _names(command: Command) -> Iterator[str]:
    return (name for option in command.options for name in option.names)


def _path(command: Command) -> str:
    return f" {command.path}".rstrip()


def _kind(value: Value) -> str:
    return f"words:{value.words}" if value.kind == "words" else value.kind
