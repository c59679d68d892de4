#compdef mlxctl
# Completion of mlxctl for zsh. Made by `mlxctl completion zsh`; do not edit.

_mlxctl_names() {
    local -a names
    names=(${(f)"$(mlxctl completion $1 2>/dev/null)"})
    compadd -a names
}

_mlxctl_demo_train() {
    _arguments \
        '*--out[Where to write it, instead of its own place]: :_files -/' \
        '*--seed[Another seed than that of the shipped model]: :' \
        '*--quick[A few steps only, to see that it runs]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_demo() {
    local state
    _arguments -C \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '1: :->command' '*:: :->rest'
    case "$state" in
    command)
        local -a commands
        commands=(
            'train:Make the built-in demo model again from its recipe'
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
            train) _mlxctl_demo_train ;;
        esac ;;
    esac
}

_mlxctl_completion_agents() {
    _arguments \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_completion_models() {
    _arguments \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_completion_fish() {
    _arguments \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_completion_zsh() {
    _arguments \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_completion_bash() {
    _arguments \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_completion() {
    local state
    _arguments -C \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '1: :->command' '*:: :->rest'
    case "$state" in
    command)
        local -a commands
        commands=(
            'bash:Print the script for bash'
            'zsh:Print the script for zsh'
            'fish:Print the script for fish'
            'models:Print the names and aliases of models, which the scripts ask for'
            'agents:Print the ids of the agents that servers here keep'
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
            bash) _mlxctl_completion_bash ;;
            zsh) _mlxctl_completion_zsh ;;
            fish) _mlxctl_completion_fish ;;
            models) _mlxctl_completion_models ;;
            agents) _mlxctl_completion_agents ;;
        esac ;;
    esac
}

_mlxctl_doctor() {
    _arguments \
        '*--json[Print JSON instead of lines]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_agents_rm() {
    _arguments \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :{_mlxctl_names agents}'
}

_mlxctl_agents_reset() {
    _arguments \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :{_mlxctl_names agents}'
}

_mlxctl_agents_show() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :{_mlxctl_names agents}'
}

_mlxctl_agents_ls() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_agents() {
    local state
    _arguments -C \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '1: :->command' '*:: :->rest'
    case "$state" in
    command)
        local -a commands
        commands=(
            'ls:List the agents of a running server, the oldest first'
            'show:Show one agent, and what was said'
            'reset:Have agents begin anew'
            'rm:Delete agents, with all that was said'
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
            ls) _mlxctl_agents_ls ;;
            show) _mlxctl_agents_show ;;
            reset) _mlxctl_agents_reset ;;
            rm) _mlxctl_agents_rm ;;
        esac ;;
    esac
}

_mlxctl_cache_clear() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--disk[What lies on disk, without a server]' \
        '*--dir[As --disk, in what `serve --cache-dir` names]: :_files -/' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_cache_import() {
    _arguments \
        '*--dir[What `serve --cache-dir` names]: :_files -/' \
        '*--json[Print JSON instead of text]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :_files'
}

_mlxctl_cache_export() {
    _arguments \
        '*--dir[What `serve --cache-dir` names]: :_files -/' \
        '*--json[Print JSON instead of text]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :_files'
}

_mlxctl_cache_verify() {
    _arguments \
        '*--dir[What `serve --cache-dir` names]: :_files -/' \
        '*--json[Print JSON instead of text]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_cache_gc() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--disk[What lies on disk, without a server]' \
        '*--dir[As --disk, in what `serve --cache-dir` names]: :_files -/' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_cache_unpin() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--disk[What lies on disk, without a server]' \
        '*--dir[As --disk, in what `serve --cache-dir` names]: :_files -/' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_cache_pin() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--disk[What lies on disk, without a server]' \
        '*--dir[As --disk, in what `serve --cache-dir` names]: :_files -/' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_cache_warm() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :_files'
}

_mlxctl_cache_explain() {
    _arguments \
        '*--last[The last N requests of the server instead]: :' \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--disk[What lies on disk, without a server]' \
        '*--dir[As --disk, in what `serve --cache-dir` names]: :_files -/' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_cache_stats() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--disk[What lies on disk, without a server]' \
        '*--dir[As --disk, in what `serve --cache-dir` names]: :_files -/' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_cache_diff() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--disk[What lies on disk, without a server]' \
        '*--dir[As --disk, in what `serve --cache-dir` names]: :_files -/' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :_files'
}

_mlxctl_cache_show() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--disk[What lies on disk, without a server]' \
        '*--dir[As --disk, in what `serve --cache-dir` names]: :_files -/' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_cache_tree() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--disk[What lies on disk, without a server]' \
        '*--dir[As --disk, in what `serve --cache-dir` names]: :_files -/' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_cache_ls() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--url[The server]: :' \
        '*--api-key[Key for that server]: :' \
        '*--disk[What lies on disk, without a server]' \
        '*--dir[As --disk, in what `serve --cache-dir` names]: :_files -/' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_cache() {
    local state
    _arguments -C \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '1: :->command' '*:: :->rest'
    case "$state" in
    command)
        local -a commands
        commands=(
            'ls:List the conversations that are kept, each with what it is the last of'
            'tree:Draw what conversations share and where they part'
            'show:Show one branch in full'
            'diff:Show how far two branches say the same, and what each says then'
            'stats:Count hits by kind'
            'explain:Say how much of a prompt was known'
            'warm:Have the prompt of a request read and kept'
            'pin:Keep branches with all that they build on'
            'unpin:Let pinned branches go when room is needed'
            'gc:Drop what has outlived its time now, not when the server is idle next'
            'verify:Read every record on disk and say what is wrong'
            'export:Write all sound records on disk into one file'
            'import:Take the records of a file'
            'clear:Drop what is kept, in memory and on disk'
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
            ls) _mlxctl_cache_ls ;;
            tree) _mlxctl_cache_tree ;;
            show) _mlxctl_cache_show ;;
            diff) _mlxctl_cache_diff ;;
            stats) _mlxctl_cache_stats ;;
            explain) _mlxctl_cache_explain ;;
            warm) _mlxctl_cache_warm ;;
            pin) _mlxctl_cache_pin ;;
            unpin) _mlxctl_cache_unpin ;;
            gc) _mlxctl_cache_gc ;;
            verify) _mlxctl_cache_verify ;;
            export) _mlxctl_cache_export ;;
            import) _mlxctl_cache_import ;;
            clear) _mlxctl_cache_clear ;;
        esac ;;
    esac
}

_mlxctl_probe() {
    _arguments \
        '*--all[Every model of the library]' \
        '*--force[Ask again what was answered before]' \
        '*--show[Print what is known, with all evidence; ask nothing]' \
        '*--toml[Write the answers there, as capabilities.toml takes them]: :_files' \
        '*--timeout[Longest time for one answer]: :' \
        '*--trust-remote-code[Run Python code inside the model directory, if there is any]' \
        '*--json[Print JSON instead of a table]' \
        '*--config[Settings file to read instead of the usual one]: :_files' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :{_mlxctl_names models}'
}

_mlxctl_bench_report() {
    _arguments \
        '*--out[Where the page and its pictures go]: :_files -/' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :_files'
}

_mlxctl_bench_compare() {
    _arguments \
        '*--fail-if[Exit with 1 when this is so, beyond noise]: :' \
        '*--json[Print the comparison as JSON and nothing else]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :_files'
}

_mlxctl_bench_probe() {
    _arguments \
        '*--rounds[Rounds that count; medians are over rounds]: :' \
        '*--warmups[Rounds before those that count]: :' \
        '*--out[File or directory for the result]: :_files' \
        '*--json[Print the whole result as JSON and nothing else]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :{_mlxctl_names models}'
}

_mlxctl_bench_mixed() {
    _arguments \
        '*--requests[Requests a round]: :' \
        '*--clients[Clients that ask at the same time]: :' \
        '*--prompt-tokens[Length of the longest prompts]: :' \
        '*--answer-tokens[Length of the longest answers]: :' \
        '*--model[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*-m[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*--url[Measure the server there instead of starting an own one]: :' \
        '*--api-key[Key for that server]: :' \
        '*--against[Measure this server too, in alternating rounds, and say the ratios]: :' \
        '*--against-model[A model of the other server]: :' \
        '*--against-key[Key for the other server]: :' \
        '*--rounds[Rounds that count; medians are over rounds]: :' \
        '*--warmups[Rounds before those that count]: :' \
        '*--seed[Decides the texts and lengths that are asked]: :' \
        '*--bandwidth[Memory bandwidth for the ceiling]: :' \
        '*--out[File or directory for the result]: :_files' \
        '*--json[Print the whole result as JSON and nothing else]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_bench_contention() {
    _arguments \
        '*--requests[Short requests in each situation]: :' \
        '*--prompt-tokens[Length of the long prompt]: :' \
        '*--answer-tokens[Length of the short answers]: :' \
        '*--watch[How long the stream is watched alone]: :' \
        '*--model[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*-m[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*--url[Measure the server there instead of starting an own one]: :' \
        '*--api-key[Key for that server]: :' \
        '*--against[Measure this server too, in alternating rounds, and say the ratios]: :' \
        '*--against-model[A model of the other server]: :' \
        '*--against-key[Key for the other server]: :' \
        '*--rounds[Rounds that count; medians are over rounds]: :' \
        '*--warmups[Rounds before those that count]: :' \
        '*--seed[Decides the texts and lengths that are asked]: :' \
        '*--bandwidth[Memory bandwidth for the ceiling]: :' \
        '*--out[File or directory for the result]: :_files' \
        '*--json[Print the whole result as JSON and nothing else]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_bench_agents() {
    _arguments \
        '*--turns[Tool results that the session reads, one after the other]: :' \
        '*--agents-at-once[Agents that then begin at once]: :' \
        '*--system-tokens[Length of the instructions that they share]: :' \
        '*--result-tokens[Length of each tool result]: :' \
        '*--answer-tokens[Length of each answer]: :' \
        '*--model[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*-m[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*--url[Measure the server there instead of starting an own one]: :' \
        '*--api-key[Key for that server]: :' \
        '*--against[Measure this server too, in alternating rounds, and say the ratios]: :' \
        '*--against-model[A model of the other server]: :' \
        '*--against-key[Key for the other server]: :' \
        '*--rounds[Rounds that count; medians are over rounds]: :' \
        '*--warmups[Rounds before those that count]: :' \
        '*--seed[Decides the texts and lengths that are asked]: :' \
        '*--bandwidth[Memory bandwidth for the ceiling]: :' \
        '*--out[File or directory for the result]: :_files' \
        '*--json[Print the whole result as JSON and nothing else]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_bench_prefix() {
    _arguments \
        '*--prompt-tokens[Length of the text that is asked about]: :' \
        '*--answer-tokens[Length of each answer]: :' \
        '*--restart[Restart the own server in every round, and ask again]' \
        '*--no-restart[Restart the own server in every round, and ask again]' \
        '*--model[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*-m[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*--url[Measure the server there instead of starting an own one]: :' \
        '*--api-key[Key for that server]: :' \
        '*--against[Measure this server too, in alternating rounds, and say the ratios]: :' \
        '*--against-model[A model of the other server]: :' \
        '*--against-key[Key for the other server]: :' \
        '*--rounds[Rounds that count; medians are over rounds]: :' \
        '*--warmups[Rounds before those that count]: :' \
        '*--seed[Decides the texts and lengths that are asked]: :' \
        '*--bandwidth[Memory bandwidth for the ceiling]: :' \
        '*--out[File or directory for the result]: :_files' \
        '*--json[Print the whole result as JSON and nothing else]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_bench_latency() {
    _arguments \
        '*--requests[Requests a round, one after the other]: :' \
        '*--prompt-tokens[Length of each prompt]: :' \
        '*--answer-tokens[Length of each answer]: :' \
        '*--model[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*-m[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*--url[Measure the server there instead of starting an own one]: :' \
        '*--api-key[Key for that server]: :' \
        '*--against[Measure this server too, in alternating rounds, and say the ratios]: :' \
        '*--against-model[A model of the other server]: :' \
        '*--against-key[Key for the other server]: :' \
        '*--rounds[Rounds that count; medians are over rounds]: :' \
        '*--warmups[Rounds before those that count]: :' \
        '*--seed[Decides the texts and lengths that are asked]: :' \
        '*--bandwidth[Memory bandwidth for the ceiling]: :' \
        '*--out[File or directory for the result]: :_files' \
        '*--json[Print the whole result as JSON and nothing else]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_bench_throughput() {
    _arguments \
        '*--streams[Answers at once; may be repeated]: :' \
        '*--answer-tokens[Length of each answer]: :' \
        '*--prompt-tokens[Length of the long prompt]: :' \
        '*--model[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*-m[Model of an own server, or with --url one that it serves]: :{_mlxctl_names models}' \
        '*--url[Measure the server there instead of starting an own one]: :' \
        '*--api-key[Key for that server]: :' \
        '*--against[Measure this server too, in alternating rounds, and say the ratios]: :' \
        '*--against-model[A model of the other server]: :' \
        '*--against-key[Key for the other server]: :' \
        '*--rounds[Rounds that count; medians are over rounds]: :' \
        '*--warmups[Rounds before those that count]: :' \
        '*--seed[Decides the texts and lengths that are asked]: :' \
        '*--bandwidth[Memory bandwidth for the ceiling]: :' \
        '*--out[File or directory for the result]: :_files' \
        '*--json[Print the whole result as JSON and nothing else]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_bench() {
    local state
    _arguments -C \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '1: :->command' '*:: :->rest'
    case "$state" in
    command)
        local -a commands
        commands=(
            'throughput:Tokens per second\: one stream, many streams, a long prompt'
            'latency:How long one person waits\: first token, next token, whole answer'
            'prefix:What a known beginning saves\: cold, warm, after a restart'
            'agents:Coding agents'
            'contention:A short request, and a decoding stream, while a long prompt is read'
            'mixed:Traffic of all lengths from several clients at once'
            'probe:How long `mlxctl probe` takes for a model, phase by phase'
            'compare:Compare two stored results, and fail when a figure got worse'
            'report:Render stored results as Markdown with SVG charts'
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
            throughput) _mlxctl_bench_throughput ;;
            latency) _mlxctl_bench_latency ;;
            prefix) _mlxctl_bench_prefix ;;
            agents) _mlxctl_bench_agents ;;
            contention) _mlxctl_bench_contention ;;
            mixed) _mlxctl_bench_mixed ;;
            probe) _mlxctl_bench_probe ;;
            compare) _mlxctl_bench_compare ;;
            report) _mlxctl_bench_report ;;
        esac ;;
    esac
}

_mlxctl_models_alias() {
    _arguments \
        '*--remove[Take the name away instead]' \
        '*--json[Print JSON instead of a table]' \
        '*--config[Settings file to read instead of the usual one]: :_files' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :{_mlxctl_names models}'
}

_mlxctl_models_rm() {
    _arguments \
        '*--yes[Do not ask]' \
        '*-y[Do not ask]' \
        '*--json[Print JSON instead of a table]' \
        '*--config[Settings file to read instead of the usual one]: :_files' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :{_mlxctl_names models}'
}

_mlxctl_models_pull() {
    _arguments \
        '*--json[Print JSON instead of a table]' \
        '*--config[Settings file to read instead of the usual one]: :_files' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_models_fit() {
    _arguments \
        '*--context[Length of the conversation]: :' \
        '*--kv-bits[Bits in which models keep keys and values while they run]: :' \
        '*--kv-group-size[Numbers that share a scale where keys and values are kept in fewer bits]: :' \
        '*--macs[For every Apple chip and memory size instead of this machine]' \
        '*--json[Print JSON instead of a table]' \
        '*--config[Settings file to read instead of the usual one]: :_files' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :{_mlxctl_names models}'
}

_mlxctl_models_info() {
    _arguments \
        '*--json[Print JSON instead of a table]' \
        '*--config[Settings file to read instead of the usual one]: :_files' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :{_mlxctl_names models}'
}

_mlxctl_models_ls() {
    _arguments \
        '*--json[Print JSON instead of a table]' \
        '*--config[Settings file to read instead of the usual one]: :_files' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_models() {
    local state
    _arguments -C \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '1: :->command' '*:: :->rest'
    case "$state" in
    command)
        local -a commands
        commands=(
            'ls:List the models on this machine'
            'info:Say what is known of a model without loading it'
            'fit:Work out whether models fit, and how fast they can be at most'
            'pull:Download a model from the Hugging Face hub'
            'rm:Remove a model from the disk'
            'alias:Give a model another name'
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
            ls) _mlxctl_models_ls ;;
            info) _mlxctl_models_info ;;
            fit) _mlxctl_models_fit ;;
            pull) _mlxctl_models_pull ;;
            rm) _mlxctl_models_rm ;;
            alias) _mlxctl_models_alias ;;
        esac ;;
    esac
}

_mlxctl_top() {
    _arguments \
        '*--url[Server to monitor]: :' \
        '*--api-key[Key for that server]: :' \
        '*--interval[Refresh interval in seconds]: :' \
        '*--once[Print once as text and exit]' \
        '*--json[Print once as a JSON document and exit]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_chat() {
    _arguments \
        '*--model[The model\: a directory, or a name or alias of the library]: :{_mlxctl_names models}' \
        '*-m[The model\: a directory, or a name or alias of the library]: :{_mlxctl_names models}' \
        '*--url[Use the server at this URL; --model names one of its models]: :' \
        '*--api-key[Key for that server]: :' \
        '*--system[System prompt]: :' \
        '*--temperature[0 is greedy]: :' \
        '*--top-p[Nucleus sampling]: :' \
        '*--max-tokens[Length limit of an answer]: :' \
        '*--tools[Offer the built-in demo tools, a clock and a calculator]' \
        '*--ask-tools[As --tools, but ask before each call]' \
        '*--image[Attach an image to the first question; may be repeated]: :_files' \
        '*--continue[Continue the last chat]' \
        '*-c[Continue the last chat]' \
        '*--session[Continue the chat whose id starts with ID; --list shows the ids]: :' \
        '*--open[Continue a chat that was exported as .json]: :_files' \
        '*--list[List the saved chats and exit]' \
        '*--save[Save the chat, to search and continue it later]' \
        '*--no-save[Save the chat, to search and continue it later]' \
        '*--plain[Chat in lines of text, for screen readers]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_serve() {
    _arguments \
        '*--model[The model\: a directory, or a name or alias of the library]: :{_mlxctl_names models}' \
        '*-m[The model\: a directory, or a name or alias of the library]: :{_mlxctl_names models}' \
        '*--models-dir[Directories whose models can all be asked for by their names]: :' \
        '*--any-library-model[Whether requests may name any model of the local library]' \
        '*--preload[Whether every model is loaded at the start]' \
        '*--max-models[Most models in memory at the same time]: :' \
        '*--pin[Models that are never unloaded to make room for others]: :' \
        '*--model-ttl[Time after which a model that nobody uses is unloaded]: :' \
        '*--name[Name by which clients ask for the model]: :' \
        '*--trust-remote-code[Whether Python code inside the model directory may be run]' \
        '*--kv-bits[Bits in which models keep keys and values while they run]: :' \
        '*--kv-group-size[Numbers that share a scale where keys and values are kept in fewer bits]: :' \
        '*--host[Address to listen on]: :' \
        '*--port[Port to listen on; 0 takes a free one and prints it]: :' \
        '*-p[Port to listen on; 0 takes a free one and prints it]: :' \
        '*--api-key[Keys that clients must send, as `Authorization\: Bearer` or `x-api-key`]: :' \
        '*--admin-key[Keys to administer models]: :' \
        '*--cors-origin[Web origins whose pages may call this server from a browser]: :' \
        '*--allowed-host[Further names for the Host header, beside the loopback names]: :' \
        '*--max-queue[Requests that may wait for a place in the batch]: :' \
        '*--log-level[What is worth a line on standard error]: :(debug info warning error)' \
        '*--strip-agent-headers[Whether lines that agents put before a system prompt for billing]' \
        '*--keep-agent-headers[Whether lines that agents put before a system prompt for billing]' \
        '*--memory-limit[Memory for weights and caches together]: :' \
        '*--prefix-cache[Memory for prompts and answers computed already]: :' \
        '*--prefix-cache-bits[Bits in which computed prompts are kept]: :' \
        '*--cache-dir[Directory for what memory has no room for, and for the next start]: :_files -/' \
        '*--cache-disk-bytes[Room on disk for them]: :' \
        '*--hlg[Whether tokens are drawn along a tone curve in place of a plain temperat]' \
        '*--no-hlg[Whether tokens are drawn along a tone curve in place of a plain temperat]' \
        '*--hlg-width[Reach of the curve'\''s middle to both sides of its pivot, in nats]: :' \
        '*--hlg-shoulder[Softness of the curve above, in nats]: :' \
        '*--hlg-toe[Softness of the curve below, in nats]: :' \
        '*--hlg-pivot-offset[Distance of the curve'\''s pivot from the likeliest token, in nats]: :' \
        '*--config[Settings file to read instead of the usual one]: :_files' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl() {
    local state
    _arguments -C \
        '*--version[Print versions and exit]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '1: :->command' '*:: :->rest'
    case "$state" in
    command)
        local -a commands
        commands=(
            'serve:Serve models over OpenAI- and Anthropic-compatible APIs'
            'chat:Chat with a model in the terminal'
            'top:Monitor a running server\: speed, queue, batch, cache and requests'
            'models:The models on this machine\: list, inspect, download, remove, name, fit'
            'bench:Measure the speed of a server, or of two side by side'
            'probe:Find out what models can do by having them generate, and remember it'
            'cache:The prefix cache of a running server, or of a directory'
            'agents:The agents of a running server, whose histories it keeps'
            'doctor:Check this installation, and say what to do'
            'completion:Print the completion script of a shell'
            'demo:The tiny built-in model\: rebuild it'
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
            serve) _mlxctl_serve ;;
            chat) _mlxctl_chat ;;
            top) _mlxctl_top ;;
            models) _mlxctl_models ;;
            bench) _mlxctl_bench ;;
            probe) _mlxctl_probe ;;
            cache) _mlxctl_cache ;;
            agents) _mlxctl_agents ;;
            doctor) _mlxctl_doctor ;;
            completion) _mlxctl_completion ;;
            demo) _mlxctl_demo ;;
        esac ;;
    esac
}

if [ "$funcstack[1]" = "_mlxctl" ]; then
    _mlxctl "$@"
else
    compdef _mlxctl mlxctl
fi
