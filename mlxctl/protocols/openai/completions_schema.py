"""The body of `POST /v1/completions`: text to be continued as it is, as OpenAI documented it before chats,
plus what users of other servers send (how to sample, what form the answer has). Null means unsaid everywhere;
fields that are not here are ignored.
"""

from mlxctl.ir import CacheMode
from mlxctl.protocols.cache_options import CacheSalt, SessionId, TtlSeconds
from mlxctl.protocols.openai.chat_schema import StreamOptions
from mlxctl.protocols.openai.text_inputs import TextInputs
from mlxctl.protocols.ranges import MaxTokensOrNone, Name, NumChoices, NumTopLogprobs, StopString, StopStrings
from mlxctl.protocols.structured_output import FormFields


class CompletionRequest(FormFields, kw_only=True):
    """The whole body.

    A `prompt` is one text, a list of texts, one list of token ids, or a list of such lists.
    """

    model: Name
    prompt: TextInputs
    n: NumChoices | None = None
    best_of: NumChoices | None = None
    max_tokens: MaxTokensOrNone | None = None
    stop: StopString | StopStrings | None = None
    ignore_eos: bool | None = None
    logprobs: NumTopLogprobs | None = None
    echo: bool | None = None
    suffix: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    session_id: SessionId | None = None
    cache_mode: CacheMode | None = None
    cache_salt: CacheSalt | None = None
    ttl: TtlSeconds | None = None
