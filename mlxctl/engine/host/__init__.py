"""The process around the loop: mailbox, waker, memory figures, failures.

Knows no MLX. `waker` may be called from any thread of the engine, everything else from its main thread.
"""
