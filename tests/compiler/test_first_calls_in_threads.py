"""Threads that make at the same time what all functions share, in a fresh process."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent(
    """
    import sys, threading, warnings
    import numpy as np
    import tapeline as tl

    sys.setswitchinterval(1e-6)
    state = tl.Variable(0.0)

    def make():
        def f(x):
            state.assign(x)

        f = tl.function(f)
        g = tl.function(lambda x: x @ x + 1.0)
        return f, g

    functions = [make() for _ in range(4)]
    start, failures = threading.Barrier(8), []
    square = np.ones((80, 80))

    def work(number):
        start.wait()
        try:
            f, g = functions[number % 4]
            for k in range(30):
                f(tl.asarray(float(k)))
                np.testing.assert_array_equal(g(square).numpy(), 81.0)
        except BaseException as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures, failures
    assert 0 <= state.numpy() < 30
    print("done")
    """
)


def test_first_calls_from_many_threads_in_a_fresh_process() -> None:
    for _ in range(2):
        made = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100
        )
        assert (made.returncode, made.stdout) == (0, "done\n"), made.stderr
