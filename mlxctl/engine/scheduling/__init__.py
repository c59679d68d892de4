"""Which sequences run, and how much of them. Pure; owned by the MLX thread."""
