"""Decode batches and the KV caches of their rows. MLX thread only."""
