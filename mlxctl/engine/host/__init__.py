"""The engine's process: its mailbox, memory and failures. Knows no MLX."""
