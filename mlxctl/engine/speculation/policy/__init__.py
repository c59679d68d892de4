"""When and how much to draft. Knows no MLX."""
