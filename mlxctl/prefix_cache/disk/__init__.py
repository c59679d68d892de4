"""Disk tier of the prefix cache, which survives a restart.

The MLX thread decides what is stored where (`tier`); a writer and a reader thread move bytes and know neither
MLX nor the index. Records lie in segment files, and a SQLite manifest says which record lies where. A record
that does not match its manifest row counts as a miss.
"""
