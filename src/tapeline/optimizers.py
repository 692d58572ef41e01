"""Optimizers, `tl.optimizers`: gradient descent and its kin, schedules, bounds for gradients."""

from tapeline.runtime.optimizers.adaptive import Adagrad as Adagrad
from tapeline.runtime.optimizers.adaptive import Adam as Adam
from tapeline.runtime.optimizers.adaptive import AdamW as AdamW
from tapeline.runtime.optimizers.adaptive import RMSprop as RMSprop
from tapeline.runtime.optimizers.base import Optimizer as Optimizer
from tapeline.runtime.optimizers.clipping import clip_by_global_norm as clip_by_global_norm
from tapeline.runtime.optimizers.clipping import clip_by_value as clip_by_value
from tapeline.runtime.optimizers.clipping import global_norm as global_norm
from tapeline.runtime.optimizers.descent import SGD as SGD
from tapeline.runtime.optimizers.descent import Lion as Lion
from tapeline.runtime.optimizers.lbfgs import Minimum as Minimum
from tapeline.runtime.optimizers.lbfgs import minimize as minimize
from tapeline.runtime.optimizers.schedules import cosine_decay as cosine_decay
from tapeline.runtime.optimizers.schedules import exponential_decay as exponential_decay
from tapeline.runtime.optimizers.schedules import piecewise_constant as piecewise_constant
from tapeline.runtime.optimizers.schedules import polynomial_decay as polynomial_decay
from tapeline.runtime.optimizers.schedules import warmup as warmup
