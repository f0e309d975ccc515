"""What must be fast. A module here offers `rows()`; `python -m benchmarks` prints them all."""
