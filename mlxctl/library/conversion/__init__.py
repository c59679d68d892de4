"""Models made on this machine: GGUF files imported, others converted by mlx-lm.

Runs in commands. Files are untrusted. Only `mlx_lm_process`, which is a process of its own, knows MLX.
"""
