"""The tape's own namespace, `tl.tape`: gradients below the comforts of `tl.GradientTape`."""

from tapeline.runtime.backprop import imperative_grad as imperative_grad
from tapeline.runtime.gradient_tape import GradientTape as GradientTape
from tapeline.runtime.recorder import Tape as Tape
from tapeline.runtime.recorder import TapeEntry as TapeEntry
from tapeline.runtime.tape import could_possibly_record as could_possibly_record
from tapeline.runtime.tape import pop_tape as pop_tape
from tapeline.runtime.tape import push_new_tape as push_new_tape
from tapeline.runtime.tape import record_operation as record_operation
from tapeline.runtime.tape import stop_recording as stop_recording
from tapeline.runtime.tape import watch as watch
from tapeline.runtime.tape import watched_variables as watched_variables
from tapeline.runtime.walk import TENSOR_SPACE as TENSOR_SPACE
from tapeline.runtime.walk import VSpace as VSpace
