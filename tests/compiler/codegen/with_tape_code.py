"""A pytest plugin: runs tests with machine code for gradients from the start."""

from tapeline.compiler.codegen import tape_code

assert tape_code.install()
