"""Benchmarks: programs written as a person writes them, and a fair clock. `cleave-bench` is the command."""
