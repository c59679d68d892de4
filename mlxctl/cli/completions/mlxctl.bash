# Completion of mlxctl for bash 3.2 and later: at each TAB it asks `mlxctl` for the words.

_mlxctl() {
    local line="${COMP_LINE:0:COMP_POINT}" current="${COMP_WORDS[COMP_CWORD]}" kind value
    local word="${line##*[[:space:]]}" IFS=$'\n'
    # `:` and `=` end a word of bash, so only what follows them is replaced.
    case "$current" in [:=]) current="" ;; esac
    local head="${word%"$current"}"
    COMPREPLY=()
    while IFS=, read -r kind value; do
        value="${value%%$'\t'*}"
        case "$kind" in
            plain) COMPREPLY+=("${value#"$head"}") ;;
            file) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$value")) ;;
            dir) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -d -- "$value")) ;;
        esac
    done < <(env COMP_WORDS="$line" COMP_CWORD="$word" _MLXCTL_COMPLETE=fish_complete mlxctl 2>/dev/null)
    case "${COMPREPLY[0]}" in *=) compopt -o nospace 2>/dev/null ;; esac
}

complete -o nosort -F _mlxctl mlxctl 2>/dev/null || complete -F _mlxctl mlxctl
