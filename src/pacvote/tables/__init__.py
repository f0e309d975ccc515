"""Tables of votes in files: a row for each sample, a column of labels, a column for each voter."""

from pacvote.tables.parts import NULLS, Null
from pacvote.tables.votes import count_table, iter_votes, n_rows, read_votes

__all__ = ["NULLS", "Null", "count_table", "iter_votes", "n_rows", "read_votes"]
