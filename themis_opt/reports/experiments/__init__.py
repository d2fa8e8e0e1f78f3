"""Kinds of reports: each a function of the rows of an experiment, as a data frame."""
