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
            plain) [[ "$text" == _ ]] && plain+=("$value") || described+=("$value:$text") ;;
        esac
    done
    (( $#described )) && _describe -V word described
    (( $#plain )) && [[ "$plain[1]" == *= ]] && compadd -S "" -a plain || compadd -a plain
}

# Sourced after compinit, or the file `_mlxctl` in $fpath.
if [[ "$funcstack[1]" == _mlxctl ]]; then
    _mlxctl "$@"
else
    compdef _mlxctl mlxctl
fi
