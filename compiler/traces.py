"""The traces of one function: found by signature, made where there is none."""

from __future__ import annotations

import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, cast

from tapeline.compiler.codegen.target import Manner
from tapeline.compiler.frontend.families import Family, Given, Plan
from tapeline.compiler.frontend.location import frames_of_library
from tapeline.compiler.frontend.logs import is_logged, log
from tapeline.compiler.frontend.options import Options
from tapeline.compiler.frontend.remade import note_new_function
from tapeline.compiler.frontend.retraces import (
    MAX_WARNINGS,
    WARN_AFTER,
    Explanation,
    TraceRecord,
    check_allowed,
    compare,
    log_warning,
)
from tapeline.compiler.frontend.signature import Call, Signature
from tapeline.compiler.key_orders import adopted, is_reordered, other_order, twins
from tapeline.compiler.loading import without_collections
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import EndlessTraceError
from tapeline.runtime.open_numbers import NumberAskedError

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction
    from tapeline.compiler.open_function import OpenFunction
    from tapeline.compiler.staged.other_sizes import OtherSizes

MAX_VARIANTS = 8
"""How many traces of one signature are kept that differ in what they read of the world."""


class Traces:
    """What a compiled function knows of its traces.

    Parameters
    ----------
    python_function : callable
        What is traced.
    name : str
        What messages call it.
    signature : Signature
        How its calls are taken apart.
    options : Options
        What was chosen when the function was made.
    whole : Traces, optional
        Those of the method of which this is the part for one object; its count goes along.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        name: str,
        signature: Signature,
        options: Options,
        whole: Traces | None = None,
    ) -> None:
        self.name = name
        self.signature = signature
        self.lock = threading.RLock()
        self.count = 0
        """How often the function was traced."""
        self.drops = 0
        """How often a trace was dropped for lack of room."""
        self.new_in_a_row = 0
        """How many calls in a row were traced; whoever finds a trace sets it to 0."""
        self._python_function = python_function
        self._options = options
        self._whole = whole
        self._by_key: dict[Hashable, ConcreteFunction] = {}
        """By keys, the last used last. Looked up without the lock, so that nobody but who holds it
        may iterate."""
        self._last_key: Hashable = None
        self._variants: dict[Hashable, list[ConcreteFunction]] = {}
        """Further traces of a key, with other guards; the last used first."""
        self._by_sizes: dict[Hashable, list[ConcreteFunction]] = {}
        """Further traces of a key, for other sizes that values tell."""
        self._served: dict[Hashable, int] = {}
        """How many calls each trace had served when a trace was last added."""
        self._families: dict[Hashable, Family] = {}
        self._records: list[TraceRecord] = []
        self._traced: dict[int, weakref.ref[ConcreteFunction]] = {}
        """The traces by their numbers."""
        self._warnings = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def valid(self, call: Call) -> ConcreteFunction | None:
        """A trace for the key of the call whose guards hold; it becomes the one that was used
        last."""
        key = call.key
        found = self._by_key.get(key)
        if found is None:
            return None
        order = call.order if call.orders else ()
        if found.serves(order):
            if self._last_key != key:
                with self.lock:
                    if self._by_key.get(key) is found:
                        self._put_last(key, found)
            return found
        for other in self._variants.get(key, ()):
            if other.serves(order):
                self._replace(key, other)
                return other
        return None

    def find_or_trace(self, call: Call) -> ConcreteFunction:
        """The trace that serves a call, made if need be. Numbers that are its inputs join the
        tensors of the call."""
        with self.lock:
            found = (None if call.open else self.valid(call)) or self._specialized(call)
            if found is None:
                found = self._trace(call)
                self._keep(call, found)
                if self.count == 1 and self._whole is None and STATE.handler is None:
                    note_new_function(self.name, self._python_function, found.served)
            return found

    def _specialized(self, call: Call) -> ConcreteFunction | None:
        """The case of a trace with open sizes that serves the call."""
        family = self._families.get(call.family)
        found = None if family is None else family.find(given_of(call), call.open)
        if found is None:
            return None
        trace, values = found
        made = trace.at(values)
        self.new_in_a_row = 0
        self._keep(call, made)
        return made

    def _replace(self, key: Hashable, concrete: ConcreteFunction) -> None:
        """Puts a trace first among those of its key, which differ in their guards."""
        with self.lock:
            before = self._by_key.get(key)
            rest = [one for one in self._variants.pop(key, ()) if one is not concrete]
            if before is not None:
                rest.insert(0, before)
            if rest:
                self._variants[key] = rest[: MAX_VARIANTS - 1]
            self._put_last(key, concrete)

    def _put_last(self, key: Hashable, concrete: ConcreteFunction) -> None:
        """Makes the trace of a key the one that was used last. The lock is held."""
        self._by_key.pop(key, None)
        self._by_key[key] = concrete
        self._last_key = key

    def _keep(self, call: Call, concrete: ConcreteFunction) -> None:
        """Lets a trace serve calls of this key from now on. One that takes numbers for inputs is
        found by its family, since there is no end of keys."""
        if takes_numbers(concrete):
            general = cast("OpenFunction", concrete.general)
            call.tensors += [call.numbers[position] for position in general.open_numbers]
        elif not concrete.depends_on_trace:
            self._replace(call.key, concrete)
            self._drop_oldest()

    def add(self, call: Call, concrete: ConcreteFunction) -> None:
        """A trace that was made elsewhere, for calls like this one."""
        self.signature.take_apart(call)
        if hasattr(concrete, "places"):
            self._family(call).traces.append(cast("OpenFunction", concrete))
        else:
            self._replace(call.key, concrete)

    def rename(self, key: Hashable, found: ConcreteFunction, named: ConcreteFunction) -> None:
        """Keeps the names that the inputs of a trace were given last."""
        with self.lock:
            if self._by_key.get(key) is found:
                self._by_key[key] = named

    def _drop_oldest(self) -> None:
        """Keeps at most `max_traces` traces: those used last."""
        self._note_use()
        while len(self._by_key) > self._options.max_traces:
            key = next(iter(self._by_key))
            del self._by_key[key]
            self._variants.pop(key, None)
            self._served.pop(key, None)
            self._by_sizes.pop(key, None)
            self.drops += 1

    def _note_use(self) -> None:
        """Puts traces that served calls since the last one was added behind those that did not.
        Machine code serves calls without a word, but counts them."""
        for key in tuple(self._by_key):
            calls = int(self._by_key[key].served[0])
            if self._served.get(key) != calls:
                self._served[key] = calls
                self._put_last(key, self._by_key[key])

    def _family(self, call: Call) -> Family:
        """The family of the call; as many are kept as traces."""
        key = call.family
        found = self._families.get(key)
        if found is None:
            if len(self._families) >= self._options.max_traces:
                del self._families[next(iter(self._families))]
            found = self._families[key] = Family()
        return found

    def for_sizes(self, call: Call, other: OtherSizes) -> ConcreteFunction:
        """The trace that serves a call with sizes that another trace does not serve; made if need
        be."""
        with self.lock:
            known = self._by_sizes.setdefault(call.key, [])
            family = self._families.get(call.family)
            given = given_of(call)
            candidates: list[ConcreteFunction] = [*known, *self._variants.get(call.key, ())]
            candidates += [] if family is None else family.all_for(given)
            candidates += [one for one in (self._by_key.get(call.key),) if one is not None]
            for one in candidates:
                is_valid = one.serves(call.order)
                if is_valid and one.staged is not None and one.staged.goes_on(other):
                    return one
            found = self._trace(call, other)
            known.insert(0, found)
            return found

    def n_by_sizes(self, key: Hashable) -> int:
        """How many traces of a signature differ in what they asked of sizes that values tell."""
        return len(self._by_sizes.get(key, ()))

    def forget(self, key: Hashable) -> None:
        """Drops the traces of a signature."""
        with self.lock:
            self._by_key.pop(key, None)
            self._variants.pop(key, None)
            self._by_sizes.pop(key, None)

    def _trace(self, call: Call, other: OtherSizes | None = None) -> ConcreteFunction:
        record = compare(self.count + 1, self.signature.describe(call), self._records)
        stale = self._by_key.get(call.key)
        if stale is not None and stale.guards is not None:
            failure = stale.guards.failure()
            if failure is not None:
                record = record._replace(changes=(failure,))
        if other is not None:
            record = record._replace(changes=((other.condition, "true", "false"),))
        family, given = self._family(call), given_of(call)
        known = [self._by_key.get(call.key), *self._variants.get(call.key, ()), *family.traces]
        same = twins(known, given.order) if given.order and other is None else []
        if same:
            record = record._replace(changes=(other_order(given.order, same[0].orders),))
        else:
            check_allowed(self.name, record)
        start = time.perf_counter()
        found, plan = self._attempt(call, family, given, () if other is None else other.present)
        found.set_max_bytes(self._options.max_bytes)
        for twin in same:
            served: ConcreteFunction | None = adopted(twin, found, given)
            if served is not None:
                return served
        found.orders = {given.order} if given.order else None
        if not any(is_reordered(twin, found) for twin in same):
            if same:
                check_allowed(self.name, record)
            self._count(record._replace(seconds=time.perf_counter() - start), found, call, plan)
        family.observe(given)
        if plan and not found.depends_on_trace:
            general = cast("OpenFunction", found)
            family.add(general)
            return general.at(general.sizes.values[: len(general.places)])
        return found

    def _count(self, record: TraceRecord, found: ConcreteFunction, call: Call, plan: Plan) -> None:
        """Takes a new trace down, and complains if there are too many."""
        self.count += 1
        if self._whole is not None:
            self._whole.count += 1
        record = record._replace(open=self.signature.describe_open(call, plan))
        sizes = found.graph_sizes
        if sizes is not None:
            record = record._replace(conditions=tuple(map(str, sizes.conditions)))
        self._records.append(record)
        self._traced[record.number] = weakref.ref(found)
        if is_logged("retrace"):
            log("retrace", f"{self.name}: {record.reason}. {record.repair}".rstrip(". "))
        self._warn_of_storm()

    def _attempt(
        self, call: Call, family: Family, given: Given, told: tuple[int, ...]
    ) -> tuple[ConcreteFunction, Plan]:
        """A new trace, and what it leaves open: as much as the code allows."""
        with without_collections():
            from tapeline.compiler.tracer import trace  # loads the compiler

        manner = Manner(self._options.fastmath, threads=self._options.threads or 0)
        is_retry = False
        while True:
            plan = family.plan(given, call.open, self._options.reduce_retracing)
            asked: set[int] = set()
            try:
                found = trace(
                    self._python_function, self.name, self.signature, call,
                    self._options.autograph, plan, manner, asked, told,
                )  # fmt: skip
                return found, plan
            except NumberAskedError as error:
                if error.asked is not asked:
                    raise  # a question of a trace around this one
                family.constant_numbers |= asked
            except RecursionError as error:
                if STATE.handler is not None or isinstance(error, EndlessTraceError):
                    raise
                raise EndlessTraceError(
                    f"{self.name}: its trace does not end: functions call each other deeper than "
                    f"Python's limit of {sys.getrecursionlimit()} frames. A recursion that is "
                    "traced must end by Python values; over tensors, use tl.while_loop"
                ) from None
            except Exception:
                if is_retry:
                    family.has_fixed_sizes = False
                if is_retry or not plan.places or call.open:
                    raise
                # Once more with the sizes at hand: for code that wants ints, or for its own error.
                is_retry = family.has_fixed_sizes = True

    def _warn_of_storm(self) -> None:
        """Says once or twice that every call is traced. Calls in a trace of another function are
        that one's matter."""
        if STATE.handler is not None:
            return
        self.new_in_a_row += 1
        if self.new_in_a_row < WARN_AFTER or self._warnings >= MAX_WARNINGS:
            return
        self._warnings += 1
        self.new_in_a_row = 0
        record = self._records[-1]
        repair = record.repair or "let the code ask less of sizes and numbers"
        message = (
            f"{self.name} was traced in {WARN_AFTER} calls in a row. Tracing is expensive. In the "
            f"last call {record.reason}. To avoid it, {repair}; {self.name}.explain() "
            "lists all traces"
        )
        log_warning(message)
        warnings.warn(message, stacklevel=frames_of_library())

    def kept(self) -> tuple[ConcreteFunction, ...]:
        """The traces that are kept, oldest first."""
        with self.lock:
            others = [one for group in self._by_sizes.values() for one in group]
            others += [one for group in self._variants.values() for one in group if one.staged]
            found = dict.fromkeys(one.general or one for one in (*self._by_key.values(), *others))
            for family in self._families.values():
                found.update(dict.fromkeys(reversed(family.traces)))
            return tuple(found)

    def explain(self) -> Explanation:
        """Every trace that was made, with its reason and what it cost."""
        return Explanation(self.name, [self._with_costs(record) for record in self._records])

    def _with_costs(self, record: TraceRecord) -> TraceRecord:
        """What was spent on a trace since it was made, and what it served."""
        reference = self._traced.get(record.number)
        found = None if reference is None else reference()
        if found is None:
            return record
        optimizing, compiling = found.seconds
        calls = int(found.served[0])
        return record._replace(optimizing=optimizing, compiling=compiling, calls=calls)

    def clear(self) -> None:
        """Forgets all traces, and what was learned of arguments; not the reasons."""
        with self.lock:
            self._by_key.clear()
            self._variants.clear()
            self._served.clear()
            self._by_sizes.clear()
            self._families.clear()


def takes_numbers(concrete: ConcreteFunction) -> bool:
    """Whether the trace has Python numbers for inputs."""
    numbers: tuple[int, ...] = getattr(concrete.general, "open_numbers", ())
    return bool(numbers)


def given_of(call: Call) -> Given:
    """What calls of one family differ in."""
    return Given(call.shapes, tuple(call.numbers), call.order)
