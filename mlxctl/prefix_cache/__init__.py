"""Prefix cache: states of prompt prefixes, in memory and on disk.

Keys, values and layer states. Runs on the engine's MLX thread; `disk` has a reader and a writer thread, and
is read and maintained by commands while no server runs. Knows token ids and opaque payloads; no text, no
HTTP.
"""
