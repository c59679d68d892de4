"""Random numbers of a row's positions.

A row gets the same ones alone, in any batch, and after a restart. Knows no MLX.
"""

_MASK_64 = (1 << 64) - 1
# Separates the number for xtc from the noise of the draw at the same position.
_XTC_SALT = 0x5851F42D4C957F2D


def position_key(seed: int, position: int) -> tuple[int, int]:
    """Return the random key of the token at `position`, two 32-bit words.

    SplitMix64 of seed and position (Steele et al. 2014).
    """
    mixed = (seed + (position + 1) * 0x9E3779B97F4A7C15) & _MASK_64
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK_64
    mixed ^= mixed >> 31
    return mixed >> 32, mixed & 0xFFFFFFFF


def uniform_number(seed: int, position: int) -> float:
    """Return the random number, 0 to 1, of xtc at `position`."""
    high, low = position_key(seed ^ _XTC_SALT, position)
    return ((high << 32) | low) / 2.0**64
