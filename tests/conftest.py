"""Hypothesis draws the same examples in every run, so that failures repeat."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
