"""Measures Tapeline beside NumPy, and beside JAX and PyTorch where they are installed.

python -m benchmarks                      one thread, then two; prints tables, writes JSON
python -m benchmarks --only gelu,softmax  some cases
"""
