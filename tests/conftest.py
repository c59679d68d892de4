"""For all tests: properties draw the same examples every time, so that a red run is red again."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
