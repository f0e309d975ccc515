"""Kernels that count pairs; `pacvote.kernels.base` says what they offer."""
