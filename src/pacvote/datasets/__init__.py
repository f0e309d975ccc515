"""Data that ships with the package."""

from pacvote.datasets.pendigits import load_pendigits

__all__ = ["load_pendigits"]
