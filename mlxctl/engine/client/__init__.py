"""The front's side of the engine. Event-loop thread only; no MLX."""
