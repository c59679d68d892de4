"""From model directories to loaded models. MLX thread only."""
