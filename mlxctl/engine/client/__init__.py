"""The front's access to the engine. Event-loop thread only; no MLX."""
