"""LoRA adapters: mounting, layers, changes. MLX thread only."""
