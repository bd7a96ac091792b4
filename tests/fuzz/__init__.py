"""Fuzzing with a seed: `make fuzz SEED=1 SECONDS=60`. Each module is a program, and has a short run in the suite."""
