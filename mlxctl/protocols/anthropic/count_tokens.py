"""How many tokens a prompt would have: Anthropic's `count_tokens`.

The count itself is made where the model is known.
"""

import msgspec

from mlxctl.ir import GenerationRequest
from mlxctl.protocols.anthropic.messages_answers import TokenCount
from mlxctl.protocols.anthropic.messages_parsing import decode_count_tokens, to_prompt_request


def parse_count_tokens(body: bytes) -> GenerationRequest:
    """Read a body as the request whose prompt is to be counted. Raises InvalidRequest."""
    return to_prompt_request(decode_count_tokens(body))


def encode_token_count(num_tokens: int) -> bytes:
    """Return the answer."""
    return msgspec.json.encode(TokenCount(input_tokens=num_tokens))
