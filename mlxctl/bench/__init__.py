"""Server benchmarks: scenarios in alternating rounds, with stored results.

Everything is measured over HTTP by one client, for mlxctl and other servers alike. Runs in the
process of the command. Imports no MLX.
"""
