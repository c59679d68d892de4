# Completion of mlxctl for bash. Made by `mlxctl completion bash`; do not edit.

_mlxctl_children() {
    case "$1" in
        "") echo "serve chat run launch service top models bench probe cache agents config doctor completion" ;;
        " service") echo "install uninstall start stop status logs" ;;
        " models") echo "ls info fit pull rm alias" ;;
        " bench") echo "throughput latency prefix agents arrivals burst contention mixed probe compare report" ;;
        " cache") echo "ls tree show diff stats explain warm pin unpin gc verify export import clear" ;;
        " agents") echo "ls show reset rm" ;;
        " config") echo "path show init" ;;
        " completion") echo "bash zsh fish models agents" ;;
    esac
}

_mlxctl_options() {
    case "$1" in
        "") echo "--version --help -h" ;;
        " serve") echo "--model -m --models-dir --any-library-model --preload --max-models --pin --model-ttl --name --trust-remote-code --kv-bits --kv-group-size --host --port -p --api-key --admin-key --cache-group --cors-origin --allowed-host --max-queue --log-level --strip-agent-headers --keep-agent-headers --memory-limit --prefix-cache --prefix-cache-bits --cache-dir --cache-disk-bytes --target-gap-ms --target-ttft-ms --hlg --no-hlg --hlg-width --hlg-shoulder --hlg-toe --hlg-pivot-offset --config --help -h" ;;
        " chat") echo "--model -m --url --api-key --system --temperature --top-p --max-tokens --tools --ask-tools --image --continue -c --session --open --list --save --no-save --plain --help -h" ;;
        " run") echo "--system -s --temperature --max-tokens --image --json --quiet -q --help -h" ;;
        " launch") echo "--model -m --url --api-key --dry-run --help -h" ;;
        " service") echo "--help -h" ;;
        " service install") echo "--force --help -h" ;;
        " service uninstall") echo "--help -h" ;;
        " service start") echo "--help -h" ;;
        " service stop") echo "--help -h" ;;
        " service status") echo "--json --help -h" ;;
        " service logs") echo "--lines -n --follow -f --help -h" ;;
        " top") echo "--url --api-key --interval --once --json --help -h" ;;
        " models") echo "--help -h" ;;
        " models ls") echo "--json --config --help -h" ;;
        " models info") echo "--json --config --help -h" ;;
        " models fit") echo "--context --kv-bits --kv-group-size --macs --json --config --help -h" ;;
        " models pull") echo "--json --config --help -h" ;;
        " models rm") echo "--yes -y --json --config --help -h" ;;
        " models alias") echo "--remove --json --config --help -h" ;;
        " bench") echo "--help -h" ;;
        " bench throughput") echo "--streams --answer-tokens --prompt-tokens --model -m --url --api-key --against --against-model --against-key --rounds --warmups --seed --bandwidth --out --json --help -h" ;;
        " bench latency") echo "--requests --prompt-tokens --answer-tokens --model -m --url --api-key --against --against-model --against-key --rounds --warmups --seed --bandwidth --out --json --help -h" ;;
        " bench prefix") echo "--prompt-tokens --answer-tokens --restart --no-restart --model -m --url --api-key --against --against-model --against-key --rounds --warmups --seed --bandwidth --out --json --help -h" ;;
        " bench agents") echo "--turns --agents-at-once --system-tokens --result-tokens --answer-tokens --model -m --url --api-key --against --against-model --against-key --rounds --warmups --seed --bandwidth --out --json --help -h" ;;
        " bench arrivals") echo "--rate --requests --prompt-tokens --answer-tokens --ttft-ms --token-ms --model -m --url --api-key --against --against-model --against-key --rounds --warmups --seed --bandwidth --out --json --help -h" ;;
        " bench burst") echo "--requests --prompt-tokens --answer-tokens --restart --no-restart --model -m --url --api-key --against --against-model --against-key --rounds --warmups --seed --bandwidth --out --json --help -h" ;;
        " bench contention") echo "--requests --prompt-tokens --answer-tokens --watch --model -m --url --api-key --against --against-model --against-key --rounds --warmups --seed --bandwidth --out --json --help -h" ;;
        " bench mixed") echo "--requests --clients --prompt-tokens --answer-tokens --model -m --url --api-key --against --against-model --against-key --rounds --warmups --seed --bandwidth --out --json --help -h" ;;
        " bench probe") echo "--rounds --warmups --out --json --help -h" ;;
        " bench compare") echo "--fail-if --json --help -h" ;;
        " bench report") echo "--out --help -h" ;;
        " probe") echo "--all --force --show --toml --timeout --trust-remote-code --json --config --help -h" ;;
        " cache") echo "--help -h" ;;
        " cache ls") echo "--json --url --api-key --disk --dir --help -h" ;;
        " cache tree") echo "--json --url --api-key --disk --dir --help -h" ;;
        " cache show") echo "--json --url --api-key --disk --dir --help -h" ;;
        " cache diff") echo "--json --url --api-key --disk --dir --help -h" ;;
        " cache stats") echo "--json --url --api-key --disk --dir --help -h" ;;
        " cache explain") echo "--last --json --url --api-key --disk --dir --help -h" ;;
        " cache warm") echo "--json --url --api-key --help -h" ;;
        " cache pin") echo "--json --url --api-key --disk --dir --help -h" ;;
        " cache unpin") echo "--json --url --api-key --disk --dir --help -h" ;;
        " cache gc") echo "--json --url --api-key --disk --dir --help -h" ;;
        " cache verify") echo "--dir --json --help -h" ;;
        " cache export") echo "--dir --json --help -h" ;;
        " cache import") echo "--dir --json --help -h" ;;
        " cache clear") echo "--json --url --api-key --disk --dir --help -h" ;;
        " agents") echo "--help -h" ;;
        " agents ls") echo "--json --url --api-key --help -h" ;;
        " agents show") echo "--json --url --api-key --help -h" ;;
        " agents reset") echo "--url --api-key --help -h" ;;
        " agents rm") echo "--url --api-key --help -h" ;;
        " config") echo "--help -h" ;;
        " config path") echo "--config --help -h" ;;
        " config show") echo "--changed --json --config --help -h" ;;
        " config init") echo "--force --config --help -h" ;;
        " doctor") echo "--json --help -h" ;;
        " completion") echo "--help -h" ;;
        " completion bash") echo "--help -h" ;;
        " completion zsh") echo "--help -h" ;;
        " completion fish") echo "--help -h" ;;
        " completion models") echo "--help -h" ;;
        " completion agents") echo "--help -h" ;;
    esac
}

_mlxctl_value() {
    case "$1" in
        " serve --model") echo "models" ;;
        " serve -m") echo "models" ;;
        " serve --models-dir") echo "unknown" ;;
        " serve --max-models") echo "unknown" ;;
        " serve --pin") echo "unknown" ;;
        " serve --model-ttl") echo "unknown" ;;
        " serve --name") echo "unknown" ;;
        " serve --kv-bits") echo "unknown" ;;
        " serve --kv-group-size") echo "unknown" ;;
        " serve --host") echo "unknown" ;;
        " serve --port") echo "unknown" ;;
        " serve -p") echo "unknown" ;;
        " serve --api-key") echo "unknown" ;;
        " serve --admin-key") echo "unknown" ;;
        " serve --cache-group") echo "unknown" ;;
        " serve --cors-origin") echo "unknown" ;;
        " serve --allowed-host") echo "unknown" ;;
        " serve --max-queue") echo "unknown" ;;
        " serve --log-level") echo "words:debug info warning error" ;;
        " serve --memory-limit") echo "unknown" ;;
        " serve --prefix-cache") echo "unknown" ;;
        " serve --prefix-cache-bits") echo "unknown" ;;
        " serve --cache-dir") echo "directories" ;;
        " serve --cache-disk-bytes") echo "unknown" ;;
        " serve --target-gap-ms") echo "unknown" ;;
        " serve --target-ttft-ms") echo "unknown" ;;
        " serve --hlg-width") echo "unknown" ;;
        " serve --hlg-shoulder") echo "unknown" ;;
        " serve --hlg-toe") echo "unknown" ;;
        " serve --hlg-pivot-offset") echo "unknown" ;;
        " serve --config") echo "files" ;;
        " chat --model") echo "models" ;;
        " chat -m") echo "models" ;;
        " chat --url") echo "unknown" ;;
        " chat --api-key") echo "unknown" ;;
        " chat --system") echo "unknown" ;;
        " chat --temperature") echo "unknown" ;;
        " chat --top-p") echo "unknown" ;;
        " chat --max-tokens") echo "unknown" ;;
        " chat --image") echo "files" ;;
        " chat --session") echo "unknown" ;;
        " chat --open") echo "files" ;;
        " run --system") echo "unknown" ;;
        " run -s") echo "unknown" ;;
        " run --temperature") echo "unknown" ;;
        " run --max-tokens") echo "unknown" ;;
        " run --image") echo "files" ;;
        " launch --model") echo "unknown" ;;
        " launch -m") echo "unknown" ;;
        " launch --url") echo "unknown" ;;
        " launch --api-key") echo "unknown" ;;
        " service logs --lines") echo "unknown" ;;
        " service logs -n") echo "unknown" ;;
        " top --url") echo "unknown" ;;
        " top --api-key") echo "unknown" ;;
        " top --interval") echo "unknown" ;;
        " models ls --config") echo "files" ;;
        " models info --config") echo "files" ;;
        " models fit --context") echo "unknown" ;;
        " models fit --kv-bits") echo "unknown" ;;
        " models fit --kv-group-size") echo "unknown" ;;
        " models fit --config") echo "files" ;;
        " models pull --config") echo "files" ;;
        " models rm --config") echo "files" ;;
        " models alias --config") echo "files" ;;
        " bench throughput --streams") echo "unknown" ;;
        " bench throughput --answer-tokens") echo "unknown" ;;
        " bench throughput --prompt-tokens") echo "unknown" ;;
        " bench throughput --model") echo "models" ;;
        " bench throughput -m") echo "models" ;;
        " bench throughput --url") echo "unknown" ;;
        " bench throughput --api-key") echo "unknown" ;;
        " bench throughput --against") echo "unknown" ;;
        " bench throughput --against-model") echo "unknown" ;;
        " bench throughput --against-key") echo "unknown" ;;
        " bench throughput --rounds") echo "unknown" ;;
        " bench throughput --warmups") echo "unknown" ;;
        " bench throughput --seed") echo "unknown" ;;
        " bench throughput --bandwidth") echo "unknown" ;;
        " bench throughput --out") echo "files" ;;
        " bench latency --requests") echo "unknown" ;;
        " bench latency --prompt-tokens") echo "unknown" ;;
        " bench latency --answer-tokens") echo "unknown" ;;
        " bench latency --model") echo "models" ;;
        " bench latency -m") echo "models" ;;
        " bench latency --url") echo "unknown" ;;
        " bench latency --api-key") echo "unknown" ;;
        " bench latency --against") echo "unknown" ;;
        " bench latency --against-model") echo "unknown" ;;
        " bench latency --against-key") echo "unknown" ;;
        " bench latency --rounds") echo "unknown" ;;
        " bench latency --warmups") echo "unknown" ;;
        " bench latency --seed") echo "unknown" ;;
        " bench latency --bandwidth") echo "unknown" ;;
        " bench latency --out") echo "files" ;;
        " bench prefix --prompt-tokens") echo "unknown" ;;
        " bench prefix --answer-tokens") echo "unknown" ;;
        " bench prefix --model") echo "models" ;;
        " bench prefix -m") echo "models" ;;
        " bench prefix --url") echo "unknown" ;;
        " bench prefix --api-key") echo "unknown" ;;
        " bench prefix --against") echo "unknown" ;;
        " bench prefix --against-model") echo "unknown" ;;
        " bench prefix --against-key") echo "unknown" ;;
        " bench prefix --rounds") echo "unknown" ;;
        " bench prefix --warmups") echo "unknown" ;;
        " bench prefix --seed") echo "unknown" ;;
        " bench prefix --bandwidth") echo "unknown" ;;
        " bench prefix --out") echo "files" ;;
        " bench agents --turns") echo "unknown" ;;
        " bench agents --agents-at-once") echo "unknown" ;;
        " bench agents --system-tokens") echo "unknown" ;;
        " bench agents --result-tokens") echo "unknown" ;;
        " bench agents --answer-tokens") echo "unknown" ;;
        " bench agents --model") echo "models" ;;
        " bench agents -m") echo "models" ;;
        " bench agents --url") echo "unknown" ;;
        " bench agents --api-key") echo "unknown" ;;
        " bench agents --against") echo "unknown" ;;
        " bench agents --against-model") echo "unknown" ;;
        " bench agents --against-key") echo "unknown" ;;
        " bench agents --rounds") echo "unknown" ;;
        " bench agents --warmups") echo "unknown" ;;
        " bench agents --seed") echo "unknown" ;;
        " bench agents --bandwidth") echo "unknown" ;;
        " bench agents --out") echo "files" ;;
        " bench arrivals --rate") echo "unknown" ;;
        " bench arrivals --requests") echo "unknown" ;;
        " bench arrivals --prompt-tokens") echo "unknown" ;;
        " bench arrivals --answer-tokens") echo "unknown" ;;
        " bench arrivals --ttft-ms") echo "unknown" ;;
        " bench arrivals --token-ms") echo "unknown" ;;
        " bench arrivals --model") echo "models" ;;
        " bench arrivals -m") echo "models" ;;
        " bench arrivals --url") echo "unknown" ;;
        " bench arrivals --api-key") echo "unknown" ;;
        " bench arrivals --against") echo "unknown" ;;
        " bench arrivals --against-model") echo "unknown" ;;
        " bench arrivals --against-key") echo "unknown" ;;
        " bench arrivals --rounds") echo "unknown" ;;
        " bench arrivals --warmups") echo "unknown" ;;
        " bench arrivals --seed") echo "unknown" ;;
        " bench arrivals --bandwidth") echo "unknown" ;;
        " bench arrivals --out") echo "files" ;;
        " bench burst --requests") echo "unknown" ;;
        " bench burst --prompt-tokens") echo "unknown" ;;
        " bench burst --answer-tokens") echo "unknown" ;;
        " bench burst --model") echo "models" ;;
        " bench burst -m") echo "models" ;;
        " bench burst --url") echo "unknown" ;;
        " bench burst --api-key") echo "unknown" ;;
        " bench burst --against") echo "unknown" ;;
        " bench burst --against-model") echo "unknown" ;;
        " bench burst --against-key") echo "unknown" ;;
        " bench burst --rounds") echo "unknown" ;;
        " bench burst --warmups") echo "unknown" ;;
        " bench burst --seed") echo "unknown" ;;
        " bench burst --bandwidth") echo "unknown" ;;
        " bench burst --out") echo "files" ;;
        " bench contention --requests") echo "unknown" ;;
        " bench contention --prompt-tokens") echo "unknown" ;;
        " bench contention --answer-tokens") echo "unknown" ;;
        " bench contention --watch") echo "unknown" ;;
        " bench contention --model") echo "models" ;;
        " bench contention -m") echo "models" ;;
        " bench contention --url") echo "unknown" ;;
        " bench contention --api-key") echo "unknown" ;;
        " bench contention --against") echo "unknown" ;;
        " bench contention --against-model") echo "unknown" ;;
        " bench contention --against-key") echo "unknown" ;;
        " bench contention --rounds") echo "unknown" ;;
        " bench contention --warmups") echo "unknown" ;;
        " bench contention --seed") echo "unknown" ;;
        " bench contention --bandwidth") echo "unknown" ;;
        " bench contention --out") echo "files" ;;
        " bench mixed --requests") echo "unknown" ;;
        " bench mixed --clients") echo "unknown" ;;
        " bench mixed --prompt-tokens") echo "unknown" ;;
        " bench mixed --answer-tokens") echo "unknown" ;;
        " bench mixed --model") echo "models" ;;
        " bench mixed -m") echo "models" ;;
        " bench mixed --url") echo "unknown" ;;
        " bench mixed --api-key") echo "unknown" ;;
        " bench mixed --against") echo "unknown" ;;
        " bench mixed --against-model") echo "unknown" ;;
        " bench mixed --against-key") echo "unknown" ;;
        " bench mixed --rounds") echo "unknown" ;;
        " bench mixed --warmups") echo "unknown" ;;
        " bench mixed --seed") echo "unknown" ;;
        " bench mixed --bandwidth") echo "unknown" ;;
        " bench mixed --out") echo "files" ;;
        " bench probe --rounds") echo "unknown" ;;
        " bench probe --warmups") echo "unknown" ;;
        " bench probe --out") echo "files" ;;
        " bench compare --fail-if") echo "unknown" ;;
        " bench report --out") echo "directories" ;;
        " probe --toml") echo "files" ;;
        " probe --timeout") echo "unknown" ;;
        " probe --config") echo "files" ;;
        " cache ls --url") echo "unknown" ;;
        " cache ls --api-key") echo "unknown" ;;
        " cache ls --dir") echo "directories" ;;
        " cache tree --url") echo "unknown" ;;
        " cache tree --api-key") echo "unknown" ;;
        " cache tree --dir") echo "directories" ;;
        " cache show --url") echo "unknown" ;;
        " cache show --api-key") echo "unknown" ;;
        " cache show --dir") echo "directories" ;;
        " cache diff --url") echo "unknown" ;;
        " cache diff --api-key") echo "unknown" ;;
        " cache diff --dir") echo "directories" ;;
        " cache stats --url") echo "unknown" ;;
        " cache stats --api-key") echo "unknown" ;;
        " cache stats --dir") echo "directories" ;;
        " cache explain --last") echo "unknown" ;;
        " cache explain --url") echo "unknown" ;;
        " cache explain --api-key") echo "unknown" ;;
        " cache explain --dir") echo "directories" ;;
        " cache warm --url") echo "unknown" ;;
        " cache warm --api-key") echo "unknown" ;;
        " cache pin --url") echo "unknown" ;;
        " cache pin --api-key") echo "unknown" ;;
        " cache pin --dir") echo "directories" ;;
        " cache unpin --url") echo "unknown" ;;
        " cache unpin --api-key") echo "unknown" ;;
        " cache unpin --dir") echo "directories" ;;
        " cache gc --url") echo "unknown" ;;
        " cache gc --api-key") echo "unknown" ;;
        " cache gc --dir") echo "directories" ;;
        " cache verify --dir") echo "directories" ;;
        " cache export --dir") echo "directories" ;;
        " cache import --dir") echo "directories" ;;
        " cache clear --url") echo "unknown" ;;
        " cache clear --api-key") echo "unknown" ;;
        " cache clear --dir") echo "directories" ;;
        " agents ls --url") echo "unknown" ;;
        " agents ls --api-key") echo "unknown" ;;
        " agents show --url") echo "unknown" ;;
        " agents show --api-key") echo "unknown" ;;
        " agents reset --url") echo "unknown" ;;
        " agents reset --api-key") echo "unknown" ;;
        " agents rm --url") echo "unknown" ;;
        " agents rm --api-key") echo "unknown" ;;
        " config path --config") echo "files" ;;
        " config show --config") echo "files" ;;
        " config init --config") echo "files" ;;
    esac
}

_mlxctl_argument() {
    case "$1" in
        " chat") echo "unknown" ;;
        " run") echo "models" ;;
        " launch") echo "unknown" ;;
        " service install") echo "unknown" ;;
        " models info") echo "models" ;;
        " models fit") echo "models" ;;
        " models pull") echo "unknown" ;;
        " models rm") echo "models" ;;
        " models alias") echo "models" ;;
        " bench throughput") echo "unknown" ;;
        " bench latency") echo "unknown" ;;
        " bench prefix") echo "unknown" ;;
        " bench agents") echo "unknown" ;;
        " bench arrivals") echo "unknown" ;;
        " bench burst") echo "unknown" ;;
        " bench contention") echo "unknown" ;;
        " bench mixed") echo "unknown" ;;
        " bench probe") echo "models" ;;
        " bench compare") echo "files" ;;
        " bench report") echo "files" ;;
        " probe") echo "models" ;;
        " cache show") echo "unknown" ;;
        " cache diff") echo "files" ;;
        " cache explain") echo "unknown" ;;
        " cache warm") echo "files" ;;
        " cache pin") echo "unknown" ;;
        " cache unpin") echo "unknown" ;;
        " cache export") echo "files" ;;
        " cache import") echo "files" ;;
        " cache clear") echo "unknown" ;;
        " agents show") echo "agents" ;;
        " agents reset") echo "agents" ;;
        " agents rm") echo "agents" ;;
    esac
}

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
