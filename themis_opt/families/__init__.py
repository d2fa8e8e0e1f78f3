"""Families of problems: products of dimensions, graphs and pipelines, behind one door."""
