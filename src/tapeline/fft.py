"""Discrete Fourier transforms, with gradients, `tl.fft`: the `fft` extension of the array API."""

from tapeline.runtime.ops.fft import fft as fft
from tapeline.runtime.ops.fft import fftn as fftn
from tapeline.runtime.ops.fft import ifft as ifft
from tapeline.runtime.ops.fft import ifftn as ifftn
from tapeline.runtime.ops.real_fft import fftfreq as fftfreq
from tapeline.runtime.ops.real_fft import fftshift as fftshift
from tapeline.runtime.ops.real_fft import hfft as hfft
from tapeline.runtime.ops.real_fft import ifftshift as ifftshift
from tapeline.runtime.ops.real_fft import ihfft as ihfft
from tapeline.runtime.ops.real_fft import irfft as irfft
from tapeline.runtime.ops.real_fft import irfftn as irfftn
from tapeline.runtime.ops.real_fft import rfft as rfft
from tapeline.runtime.ops.real_fft import rfftfreq as rfftfreq
from tapeline.runtime.ops.real_fft import rfftn as rfftn
