"""Nested structures of tensors, `tl.nest`."""

from tapeline.runtime.nest import assert_same_structure as assert_same_structure
from tapeline.runtime.nest import flatten as flatten
from tapeline.runtime.nest import map_structure as map_structure
from tapeline.runtime.nest import register as register
from tapeline.runtime.nest import unflatten as unflatten
