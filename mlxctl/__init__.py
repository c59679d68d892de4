"""mlxctl: serve, probe, chat with and measure MLX models."""

__version__ = "0.1.0"
