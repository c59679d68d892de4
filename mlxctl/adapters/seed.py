"""ByteDance's Seed-OSS: calls and thinking between tags that carry its name."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class SeedAdapter(ModelAdapter):
    """A Seed model."""

    habits: ClassVar[Habits] = Habits(
        family="seed",
        tool_parser_ids=("seed_oss",),
        end_tokens=("<seed:eos>",),
    )
