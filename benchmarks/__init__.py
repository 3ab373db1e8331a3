"""Ratios against a baseline in the same run; `python -m benchmarks` writes RESULTS.md."""
