"""Derivatives of functions, on top of the tape: first and higher, reverse and forward."""
