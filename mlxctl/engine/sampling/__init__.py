"""From logits to token ids. MLX thread only."""
