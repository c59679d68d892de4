"""What code of mlx, mlx-lm, mlx-vlm and mlx-audio may raise: it is not ours to enumerate more finely."""

FOREIGN_ERRORS = (
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    AssertionError,
    MemoryError,
)
