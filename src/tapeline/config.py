"""Switches for the whole process, `tl.config`."""

from tapeline.compiler.eagerly import functions_run_eagerly as functions_run_eagerly
from tapeline.compiler.eagerly import run_functions_eagerly as run_functions_eagerly
from tapeline.compiler.frontend.tracebacks import full_traceback as full_traceback
from tapeline.runtime.gradients.guard import guard_gradients as guard_gradients
