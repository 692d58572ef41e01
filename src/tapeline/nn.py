"""Building blocks of neural networks, `tl.nn`: functions without state, on tensors."""

from tapeline.runtime.ops.activations import gelu as gelu
from tapeline.runtime.ops.activations import glu as glu
from tapeline.runtime.ops.activations import log_sigmoid as log_sigmoid
from tapeline.runtime.ops.activations import mish as mish
from tapeline.runtime.ops.activations import silu as silu
from tapeline.runtime.ops.activations import softplus as softplus
from tapeline.runtime.ops.activations import softsign as softsign
from tapeline.runtime.ops.attention import embedding as embedding
from tapeline.runtime.ops.attention import linear as linear
from tapeline.runtime.ops.attention import log_softmax as log_softmax
from tapeline.runtime.ops.attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from tapeline.runtime.ops.attention import softmax as softmax
from tapeline.runtime.ops.convolution import conv1d as conv1d
from tapeline.runtime.ops.convolution import conv2d as conv2d
from tapeline.runtime.ops.convolution import conv3d as conv3d
from tapeline.runtime.ops.distances import cdist as cdist
from tapeline.runtime.ops.distances import cosine_similarity as cosine_similarity
from tapeline.runtime.ops.distances import normalize as normalize
from tapeline.runtime.ops.hyperbolic import tanh as tanh
from tapeline.runtime.ops.losses import one_hot as one_hot
from tapeline.runtime.ops.losses import softmax_cross_entropy as softmax_cross_entropy
from tapeline.runtime.ops.losses import (
    sparse_softmax_cross_entropy as sparse_softmax_cross_entropy,
)
from tapeline.runtime.ops.margins import binary_cross_entropy as binary_cross_entropy
from tapeline.runtime.ops.margins import gaussian_nll as gaussian_nll
from tapeline.runtime.ops.margins import hinge as hinge
from tapeline.runtime.ops.margins import poisson_nll as poisson_nll
from tapeline.runtime.ops.margins import triplet_margin as triplet_margin
from tapeline.runtime.ops.normalization import batch_norm as batch_norm
from tapeline.runtime.ops.normalization import group_norm as group_norm
from tapeline.runtime.ops.normalization import layer_norm as layer_norm
from tapeline.runtime.ops.normalization import rms_norm as rms_norm
from tapeline.runtime.ops.objectives import (
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
)
from tapeline.runtime.ops.objectives import cross_entropy as cross_entropy
from tapeline.runtime.ops.objectives import huber as huber
from tapeline.runtime.ops.objectives import kl_divergence as kl_divergence
from tapeline.runtime.ops.objectives import mae as mae
from tapeline.runtime.ops.objectives import mse as mse
from tapeline.runtime.ops.patches import fold as fold
from tapeline.runtime.ops.patches import grid_sample as grid_sample
from tapeline.runtime.ops.patches import pixel_shuffle as pixel_shuffle
from tapeline.runtime.ops.patches import pixel_unshuffle as pixel_unshuffle
from tapeline.runtime.ops.patches import unfold as unfold
from tapeline.runtime.ops.pooling import adaptive_avg_pool as adaptive_avg_pool
from tapeline.runtime.ops.pooling import avg_pool as avg_pool
from tapeline.runtime.ops.pooling import conv_transpose as conv_transpose
from tapeline.runtime.ops.pooling import max_pool as max_pool
from tapeline.runtime.ops.rectifiers import celu as celu
from tapeline.runtime.ops.rectifiers import elu as elu
from tapeline.runtime.ops.rectifiers import hardsigmoid as hardsigmoid
from tapeline.runtime.ops.rectifiers import hardswish as hardswish
from tapeline.runtime.ops.rectifiers import hardtanh as hardtanh
from tapeline.runtime.ops.rectifiers import leaky_relu as leaky_relu
from tapeline.runtime.ops.rectifiers import prelu as prelu
from tapeline.runtime.ops.rectifiers import relu as relu
from tapeline.runtime.ops.rectifiers import relu6 as relu6
from tapeline.runtime.ops.rectifiers import selu as selu
from tapeline.runtime.ops.resizing import resize as resize
from tapeline.runtime.ops.sampling import dropout as dropout
from tapeline.runtime.ops.shrinking import hardshrink as hardshrink
from tapeline.runtime.ops.shrinking import softshrink as softshrink
from tapeline.runtime.ops.softmax import logsumexp as logsumexp
from tapeline.runtime.ops.special import sigmoid as sigmoid
from tapeline.runtime.sequences import ctc_loss as ctc_loss
