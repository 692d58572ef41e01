"""Functions of one example, run on many at once."""
