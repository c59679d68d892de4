"""Families of mlx-audio's speech models, a module each. MLX thread only."""
