"""Benchmarks beside the scenarios of `mlxctl bench`.

`python -m tests.benchmarks.against` runs a scenario beside other servers.

`python -m tests.benchmarks` prints a table and writes `bench_results/all.json`, or with `--only PART --out
FILE` a part of it. Not part of the test suite: machines are shared and noisy, so every figure is a ratio of
medians over alternating rounds, with its spread. The model is the generated `bench5m` (5M parameters, random
weights, endless greedy output): it shows the cost of serving, not that of a large model.
"""
