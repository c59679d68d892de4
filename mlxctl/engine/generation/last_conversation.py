"""The working cache of the row that finished last, for whoever goes on with its conversation.

MLX thread only.

All that it holds is in the prefix cache, too, where everybody finds it. Who takes it over has it alone, and
nothing is copied.
"""

from dataclasses import dataclass

from mlxctl.engine.generation import caches as kv
from mlxctl.engine.generation.caches import Caches
from mlxctl.ir.tokens import Salt, Tokens, common_tokens
from mlxctl.prefix_cache.records import grows, leaves

# Who goes on with a conversation leaves out at most what was thought, or is put differently by the template.
_MIN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class LastConversation:
    """A cache of one sequence that nobody else has, and the tokens, with their images, whose keys, values and
    states are in it.
    """

    tokens: Tokens
    caches: Caches
    num_bytes: int
    salts: tuple[Salt, ...] = ()

    @classmethod
    def of(cls, tokens: Tokens, caches: Caches, salts: tuple[Salt, ...] = ()) -> "LastConversation":
        """Take the cache over from its row."""
        kv.evaluate(caches)
        return cls(tokens, caches, sum(array.nbytes for array in kv.arrays(caches)), salts)

    def num_usable(self, prompt: Tokens, salts: tuple[Salt, ...] = ()) -> int:
        """Return how many tokens of a prompt it has: to the token if all layers can be cut, else all that it
        holds or nothing.

        Nothing for a prompt that has little to do with it: most of it would be lost for the conversation that
        it belongs to.
        """
        num_tokens = min(common_tokens(self.tokens, prompt, self.salts, salts), len(prompt) - 1)
        if num_tokens < len(self.tokens) * _MIN_SHARE:
            return 0
        can_be_cut = all(grows(layer) for layer in leaves(self.caches))
        return num_tokens if can_be_cut or num_tokens == len(self.tokens) else 0

    def take(self, num_tokens: int) -> Caches:
        """Return the cache with so many tokens; it must not be taken again."""
        if num_tokens < len(self.tokens):
            for layer in leaves(self.caches):
                layer.trim(len(self.tokens) - num_tokens)
        return self.caches
