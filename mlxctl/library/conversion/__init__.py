"""Models made on this machine: GGUF files imported, others converted by mlx-lm.

Runs in commands. Files are untrusted. mlx-lm runs in a process of its own, `engine.conversion_process`.
"""
