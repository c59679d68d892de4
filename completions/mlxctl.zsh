#compdef mlxctl
# Completion of mlxctl for zsh. Made by `mlxctl completion zsh`; do not edit.

_mlxctl_names() {
    local -a names
    names=(${(f)"$(mlxctl completion $1 2>/dev/null)"})
    compadd -a names
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

_mlxctl_config_init() {
    _arguments \
        '*--force[Replace a file that exists]' \
        '*--config[Settings file to use instead of the usual one]: :_files' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_config_show() {
    _arguments \
        '*--changed[Only settings that differ from their defaults]' \
        '*--json[Print JSON instead of TOML]' \
        '*--config[Settings file to use instead of the usual one]: :_files' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_config_path() {
    _arguments \
        '*--config[Settings file to use instead of the usual one]: :_files' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_config() {
    local state
    _arguments -C \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '1: :->command' '*:: :->rest'
    case "$state" in
    command)
        local -a commands
        commands=(
            'path:Print the path of the settings file; it need not exist'
            'show:Print the settings that hold'
            'init:Write a settings file with every setting'
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
            path) _mlxctl_config_path ;;
            show) _mlxctl_config_show ;;
            init) _mlxctl_config_init ;;
        esac ;;
    esac
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
            'show:Show one agent and its messages'
            'reset:Delete the messages of agents. Model, instructions and tools stay'
            'rm:Delete agents and their messages'
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
            'ls:List the cached conversations, the most recently used first'
            'tree:Draw which conversations share a beginning, and where they part'
            'show:Show one conversation\: size, last use, checkpoints and text'
            'diff:Show how many tokens two conversations share, and where they differ'
            'stats:Show cache hits'
            'explain:Explain why a request hit or missed the cache'
            'warm:Cache the prompt of a request in advance'
            'pin:Protect conversations from eviction until they are unpinned'
            'unpin:Allow the eviction of pinned conversations'
            'gc:Remove expired entries now'
            'verify:Check every record on disk. Changes nothing; a server may be running'
            'export:Export all intact records on disk to one file; a server may be running'
            'import:Import the records of a file after checking each'
            'clear:Remove entries in memory and on disk'
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
        '*--out[Where the page and its images go]: :_files -/' \
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

_mlxctl_bench_burst() {
    _arguments \
        '*--requests[Requests that are sent at once]: :' \
        '*--prompt-tokens[Length of each prompt]: :' \
        '*--answer-tokens[Length of each answer]: :' \
        '*--restart[Restart the own server in every round, for a burst on a fresh server]' \
        '*--no-restart[Restart the own server in every round, for a burst on a fresh server]' \
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

_mlxctl_bench_arrivals() {
    _arguments \
        '*--rate[Requests a second, on average]: :' \
        '*--requests[Requests a round]: :' \
        '*--prompt-tokens[Length of the longest prompts]: :' \
        '*--answer-tokens[Length of the longest answers]: :' \
        '*--ttft-ms[Latest first token of a good request]: :' \
        '*--token-ms[Longest mean time of its further tokens]: :' \
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
            'latency:Latency of one client\: first token, next token, whole answer'
            'prefix:What the prefix cache saves\: cold, warm, after a restart'
            'agents:Coding agents'
            'arrivals:Requests at random times at a given rate, and the share served well'
            'burst:Many new prompts at once\: on a fresh server, and after one stream alone'
            'contention:A short request and a decoding stream beside a long prefill'
            'mixed:Mixed prompt and answer lengths from several clients'
            'probe:Duration of `mlxctl probe` for a model, by phase'
            'compare:Compare two stored results; fail when a figure got worse'
            'report:Render stored results as Markdown with SVG charts'
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
            throughput) _mlxctl_bench_throughput ;;
            latency) _mlxctl_bench_latency ;;
            prefix) _mlxctl_bench_prefix ;;
            agents) _mlxctl_bench_agents ;;
            arrivals) _mlxctl_bench_arrivals ;;
            burst) _mlxctl_bench_burst ;;
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
        '*--kv-bits[Bits of the KV cache while a model runs]: :' \
        '*--kv-group-size[Quantization group size of the KV cache]: :' \
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
            'info:Show what a model is, without loading it'
            'fit:Estimate whether models fit this machine, and their maximum speed'
            'pull:Download a model from the Hugging Face hub'
            'rm:Delete a model from disk'
            'alias:Add a name for a model'
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

_mlxctl_service_logs() {
    _arguments \
        '*--lines[Number of lines]: :' \
        '*-n[Number of lines]: :' \
        '*--follow[Print new lines as they come]' \
        '*-f[Print new lines as they come]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_service_status() {
    _arguments \
        '*--json[Print JSON instead of text]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_service_stop() {
    _arguments \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_service_start() {
    _arguments \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_service_uninstall() {
    _arguments \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_service_install() {
    _arguments \
        '*--force[Replace a service that is installed]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_service() {
    local state
    _arguments -C \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '1: :->command' '*:: :->rest'
    case "$state" in
    command)
        local -a commands
        commands=(
            'install:Install the service and start it\: launchd on macOS, systemd on Linux'
            'uninstall:Stop the service and remove it. Models, cache and log stay'
            'start:Start the installed service'
            'stop:Stop the service until the next login, or until `start`'
            'status:Show whether the service is installed and runs'
            'logs:Print the end of the service'\''s log'
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
            install) _mlxctl_service_install ;;
            uninstall) _mlxctl_service_uninstall ;;
            start) _mlxctl_service_start ;;
            stop) _mlxctl_service_stop ;;
            status) _mlxctl_service_status ;;
            logs) _mlxctl_service_logs ;;
        esac ;;
    esac
}

_mlxctl_launch() {
    _arguments \
        '*--model[Model to use]: :' \
        '*-m[Model to use]: :' \
        '*--url[Server to use]: :' \
        '*--api-key[Key for that server]: :' \
        '*--dry-run[Print the command and environment instead of running it]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        && return
}

_mlxctl_run() {
    _arguments \
        '*--system[System prompt]: :' \
        '*-s[System prompt]: :' \
        '*--temperature[0 is greedy]: :' \
        '*--max-tokens[Length limit of an answer]: :' \
        '*--image[Attach an image; may be repeated]: :_files' \
        '*--json[Print the answer, token counts and times as one JSON object]' \
        '*--quiet[No download progress and no statistics]' \
        '*-q[No download progress and no statistics]' \
        '*--help[Show this message and exit.]' \
        '*-h[Show this message and exit.]' \
        '*: :{_mlxctl_names models}'
}

_mlxctl_chat() {
    _arguments \
        '*--model[Model to serve]: :{_mlxctl_names models}' \
        '*-m[Model to serve]: :{_mlxctl_names models}' \
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
        '*--model[Model to serve]: :{_mlxctl_names models}' \
        '*-m[Model to serve]: :{_mlxctl_names models}' \
        '*--models-dir[Directory whose models are all served under their names]: :' \
        '*--any-library-model[Serve every model of the local library]' \
        '*--preload[Load every model at start, as far as memory allows. Default]' \
        '*--max-models[Maximum number of models in memory. Default\: as many as fit]: :' \
        '*--pin[Model that is never unloaded, neither for room nor for being idle]: :' \
        '*--model-ttl[Idle time after which a model is unloaded. Default]: :' \
        '*--name[Name of the model in requests. Default\: the name of its directory]: :' \
        '*--trust-remote-code[Allow Python code from the model directory to run]' \
        '*--kv-bits[Bits of the KV cache while a model runs]: :' \
        '*--kv-group-size[Quantization group size of the KV cache]: :' \
        '*--host[Address to listen on. 0.0.0.0 accepts connections from the network]: :' \
        '*--port[Port to listen on. 0 picks a free port and prints it]: :' \
        '*-p[Port to listen on. 0 picks a free port and prints it]: :' \
        '*--api-key[API key that clients must send, as `Authorization]: :' \
        '*--admin-key[Key for managing models]: :' \
        '*--cache-group[API key of a group that shares one prefix cache]: :' \
        '*--cors-origin[Web origin whose pages may call this server from a browser]: :' \
        '*--allowed-host[Host header to accept beside the loopback names]: :' \
        '*--max-queue[Maximum number of requests waiting for a place in the batch]: :' \
        '*--log-level[Minimum level of log messages on standard error]: :(debug info warning error)' \
        '*--strip-agent-headers[Remove the billing lines that coding agents put before a system prompt a]' \
        '*--keep-agent-headers[Remove the billing lines that coding agents put before a system prompt a]' \
        '*--memory-limit[Maximum memory for weights and caches together. Default]: :' \
        '*--prefix-cache[Maximum memory for the prefix cache. 0 turns it off. Default]: :' \
        '*--prefix-cache-bits[Bits of stored prefix-cache entries]: :' \
        '*--cache-dir[Directory of the prefix cache'\''s disk tier]: :_files -/' \
        '*--cache-disk-bytes[Maximum size of the disk tier]: :' \
        '*--target-gap-ms[Milliseconds that may pass between two tokens of an answer because promp]: :' \
        '*--target-ttft-ms[Milliseconds that a prompt may wait before prompts are read as fast as t]: :' \
        '*--hlg[Sample with a tone curve instead of a plain temperature]' \
        '*--no-hlg[Sample with a tone curve instead of a plain temperature]' \
        '*--hlg-width[Width of the tone curve'\''s middle on both sides of its pivot, in nats]: :' \
        '*--hlg-shoulder[Softness of the tone curve above its middle, in nats]: :' \
        '*--hlg-toe[Softness of the tone curve below its middle, in nats]: :' \
        '*--hlg-pivot-offset[Distance of the tone curve'\''s pivot from the most likely token, in nats]: :' \
        '*--config[Settings file to read instead of the default one]: :_files' \
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
            'run:Answer one prompt, or chat; downloads the model if needed'
            'launch:Start a coding agent with a model of this machine'
            'service:Run the server in the background, from login on'
            'top:Monitor a running server\: speed, queue, batch, cache, requests'
            'models:Manage the models on this machine'
            'bench:Benchmark a server, or two servers side by side'
            'probe:Test what models can do by generating, and store the results'
            'cache:Inspect and manage the prefix cache\: list, explain misses, pin, clear'
            'agents:Manage the agents of a running server\: list, show, reset, delete'
            'config:Create the settings file, and show which settings hold'
            'doctor:Check this installation, and suggest fixes'
            'completion:Print a shell completion script'
        )
        _describe command commands ;;
    rest)
        case "$words[1]" in
            serve) _mlxctl_serve ;;
            chat) _mlxctl_chat ;;
            run) _mlxctl_run ;;
            launch) _mlxctl_launch ;;
            service) _mlxctl_service ;;
            top) _mlxctl_top ;;
            models) _mlxctl_models ;;
            bench) _mlxctl_bench ;;
            probe) _mlxctl_probe ;;
            cache) _mlxctl_cache ;;
            agents) _mlxctl_agents ;;
            config) _mlxctl_config ;;
            doctor) _mlxctl_doctor ;;
            completion) _mlxctl_completion ;;
        esac ;;
    esac
}

if [ "$funcstack[1]" = "_mlxctl" ]; then
    _mlxctl "$@"
else
    compdef _mlxctl mlxctl
fi
