"""What Functionary 3.2 says stands in a message to `all`; it does not think aloud."""

from mlxctl.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="functionary_all",
    prompt_ends=(">>>",),
    identifying_texts=(">>>all",),
    wrappers=(">>>all\n",),
)
