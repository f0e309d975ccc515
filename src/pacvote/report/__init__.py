"""A certificate as one HTML page that loads nothing: for browsers, screen readers and paper."""

from pacvote.report.page import render, save

__all__ = ["render", "save"]
