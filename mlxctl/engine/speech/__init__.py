"""Speech models in the engine. MLX thread only."""
