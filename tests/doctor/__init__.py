"""The doctor's verdicts."""
