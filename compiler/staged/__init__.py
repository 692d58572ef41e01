"""Graphs with sizes that depend on values: cut into stages, each run when its sizes are known."""
