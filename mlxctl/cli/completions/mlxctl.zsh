#compdef mlxctl
# Completion of mlxctl for zsh: at each TAB it asks `mlxctl` for the words.

_mlxctl() {
    local -a answer plain described
    local kind value text
    answer=("${(@f)$(env COMP_WORDS="${(j: :)words[1,CURRENT]}" COMP_CWORD=$((CURRENT - 1)) \
        _MLXCTL_COMPLETE=zsh_complete mlxctl 2>/dev/null)}")
    # The words are what follows the `=` of an option.
    [[ "$words[CURRENT]" == -*=* ]] && compset -P '-*='
    for kind value text in "${answer[@]}"; do
        case "$kind" in
            file) _files ;;
            dir) _files -/ ;;
            plain) if [[ "$text" == _ ]]; then plain+=("$value"); else described+=("$value:$text"); fi ;;
        esac
    done
    # `_describe` takes the text after a colon, `compadd` has none.
    (( $#described )) && _describe -V word described
    if [[ "$plain[1]" == *= ]]; then
        compadd -S "" -a plain
    else
        compadd -a plain
    fi
}

# Sourced after compinit, or the file `_mlxctl` in $fpath.
if [[ "$funcstack[1]" == _mlxctl ]]; then
    _mlxctl "$@"
else
    compdef _mlxctl mlxctl
fi
