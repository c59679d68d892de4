"""Tests of the benchmarks, on servers of known speed and on mlxctl."""
