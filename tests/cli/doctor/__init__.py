"""Tests of the installation checks."""
