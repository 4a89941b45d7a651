"""A function that cannot be loaded."""

raise ValueError("no table")
