"""The Qwen family, 2 to 3.5: ChatML, calls between tags, thinking between tags from version 3 on."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter


class QwenAdapter(ModelAdapter):
    """A Qwen model.

    Configurations name `<|endoftext|>` or `<|im_end|>`, seldom both; a model that was trained on further text may say either.
    """

    tool_parser_ids: ClassVar[tuple[str, ...]] = ("hermes_json",)
    end_tokens: ClassVar[tuple[str, ...]] = ("<|im_end|>", "<|endoftext|>")
