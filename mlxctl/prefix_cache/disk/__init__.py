"""The warm tier: what memory had no room for, kept on disk and found again after a restart.

The engine's thread owns what is where (`tier`); a writer and a reader thread move bytes and know neither mlx
nor the index. Records lie in segment files, and a manifest says which record lies where; a record that is not
what the manifest promised is a miss.
"""
