"""Measure servers: scenarios run in alternating rounds against one or two of them, results kept with all that
explains them.

Everything is measured from outside, over HTTP, by one client, so that peers are measured exactly as we are.
Knows no MLX.
"""
