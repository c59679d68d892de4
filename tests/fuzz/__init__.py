"""Bodies that almost make sense, sent to a real server: nothing but answers and named refusals may come back.

`python -m tests.fuzz` sends ten thousand; `tests/server/test_fuzz.py` a few hundred of the same.
"""
