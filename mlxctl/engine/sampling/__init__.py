"""Sampling: from logits to token ids. MLX thread only."""
