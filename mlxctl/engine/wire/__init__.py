"""Commands and reports between front and engine, and their framing.

No MLX, no threads.
"""
