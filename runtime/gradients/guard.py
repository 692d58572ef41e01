"""The switch of the rule that an exact zero wins in gradients."""

from __future__ import annotations

from tapeline.runtime.dispatch import GUARDED


def guard_gradients(enabled: bool) -> bool:
    """Whether exact zeros win over infinities and NaN in gradients, for the whole process.

    They do by default: `where(x > 0, sqrt(x), 0)` has the gradient 0 at 0. Without the rule the
    gradient there is 0 * infinity, so NaN, as in other libraries. Functions that were compiled
    before keep the rule that they were compiled under.

    Parameters
    ----------
    enabled : bool
        What shall hold from now on.

    Returns
    -------
    bool
        What held before.

    Examples
    --------
    >>> import tapeline as tl
    >>> before = tl.config.guard_gradients(False)
    >>> tl.config.guard_gradients(before)
    False
    """
    before = GUARDED[0]
    GUARDED[0] = bool(enabled)
    return before
