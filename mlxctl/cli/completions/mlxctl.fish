# Completion of mlxctl for fish: at each TAB it asks `mlxctl` for the words.

function __mlxctl_words
    # The words are what follows the `=` of an option.
    set -l head (string match -r -- '^-[^=]*=' (commandline -ct))
    for line in (env COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -ct) _MLXCTL_COMPLETE=fish_complete mlxctl 2>/dev/null)
        set -l answer (string split -m 1 , -- $line)
        switch $answer[1]
            case file
                __fish_complete_path $answer[2]
            case dir
                __fish_complete_directories $answer[2]
            case plain
                echo "$head$answer[2]"
        end
    end
end

complete -c mlxctl -f -a '(__mlxctl_words)'
