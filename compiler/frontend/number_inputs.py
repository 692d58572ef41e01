"""Python numbers among the arguments as inputs of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.signature import Call, Signature, with_numbers
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.runtime.open_numbers import NumberAskedError, OpenNumber
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import wrap


class OpenNumbers:
    """The numbers of one trace that are left open; they become inputs after the tensors.

    Parameters
    ----------
    positions : sequence of int
        Which of the call's numbers.
    asked : set of int
        Where to note those whose value the program wants.
    """

    def __init__(
        self, graph: CapturingGraph, signature: Signature, call: Call, positions: Sequence[int],
        asked: set[int],
    ) -> None:  # fmt: skip
        self.asked = asked
        self.specs: list[TensorSpec] = []
        self._values: list[Any] = list(call.numbers)
        names = signature.describe_numbers(call) if positions else []
        for position in positions:
            number = call.numbers[position]
            kind, sign = type(number), 1 if number > 0 else -1
            spec = spec_of((), np.dtype(kind))
            symbol = Symbol(graph, graph.add_placeholder(spec, names[position]), spec)
            symbol.weak = kind
            self.specs.append(spec)
            self._values[position] = OpenNumber(
                wrap(symbol), kind, self.asked, frozenset({position}), sign
            )

    def replace(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with these numbers in them."""
        values = iter(self._values)
        return (
            tuple([with_numbers(value, values) for value in args]),
            {name: with_numbers(value, values) for name, value in kwargs.items()},
        )

    def check(self) -> None:
        """Called at the end of a trace, which may have kept quiet about a question."""
        if self.asked:
            raise NumberAskedError(self.asked)
