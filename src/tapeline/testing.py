"""Testing programs and gradient rules, `tl.testing`."""

from tapeline.runtime.gradients.checking import check_gradients as check_gradients
