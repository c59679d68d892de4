"""Mutated request bodies, sent to a real server.

Only answers and named errors may come back. `python -m tests.fuzz` sends ten thousand;
`tests/server/test_fuzz.py` a few hundred.
"""
