"""Classes that other libraries know as trees: those registered with JAX or optree, where these are
loaded already. Nothing is imported for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

_NAMESPACE = "tapeline"
"""The one of optree's that is looked into, besides the global one."""

Halves = tuple[Callable[[Any], tuple[Sequence[Any], Any]], Callable[[Any, Sequence[Any]], Any]]
"""How an object is taken apart into children and the rest, and put together from the rest and
children."""


def find_registration(x: Any) -> Halves | None:
    """How a library that is loaded takes objects such as `x` apart; None if it is a leaf to all."""
    jax = getattr(sys.modules.get("jax"), "tree_util", None)
    if jax is not None and not _is_jax_leaf(jax, x):
        return _jax_halves(jax)
    optree = sys.modules.get("optree")
    if optree is not None and not optree.tree_is_leaf(x, namespace=_NAMESPACE):
        return _optree_halves(optree)
    return None


def _is_jax_leaf(jax: Any, x: Any) -> bool:
    try:
        return bool(jax.all_leaves([x]))
    except Exception:
        return True  # JAX is not through with its own import


def _jax_halves(jax: Any) -> Halves:
    def flatten(x: Any) -> tuple[Sequence[Any], Any]:
        children, rest = jax.tree_flatten(x, is_leaf=lambda y: y is not x)
        return children, rest

    return flatten, lambda rest, children: rest.unflatten(children)


def _optree_halves(optree: Any) -> Halves:
    def flatten(x: Any) -> tuple[Sequence[Any], Any]:
        children, rest = optree.tree_flatten(x, is_leaf=lambda y: y is not x, namespace=_NAMESPACE)
        return children, rest

    return flatten, optree.tree_unflatten
