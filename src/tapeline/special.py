"""Special functions, `tl.special`: those of statistics and physics, by SciPy's names."""

from tapeline.runtime.ops.activations import log_sigmoid as log_expit
from tapeline.runtime.ops.bessel import i0 as i0
from tapeline.runtime.ops.bessel import i0e as i0e
from tapeline.runtime.ops.bessel import i1 as i1
from tapeline.runtime.ops.bessel import i1e as i1e
from tapeline.runtime.ops.beta_functions import beta as beta
from tapeline.runtime.ops.beta_functions import betaln as betaln
from tapeline.runtime.ops.entropies import entr as entr
from tapeline.runtime.ops.entropies import kl_div as kl_div
from tapeline.runtime.ops.entropies import log1mexp as log1mexp
from tapeline.runtime.ops.entropies import logit as logit
from tapeline.runtime.ops.entropies import rel_entr as rel_entr
from tapeline.runtime.ops.entropies import xlog1py as xlog1py
from tapeline.runtime.ops.entropies import xlogy as xlogy
from tapeline.runtime.ops.error_functions import erfc as erfc
from tapeline.runtime.ops.error_functions import erfcx as erfcx
from tapeline.runtime.ops.error_functions import erfinv as erfinv
from tapeline.runtime.ops.error_functions import log_ndtr as log_ndtr
from tapeline.runtime.ops.error_functions import ndtr as ndtr
from tapeline.runtime.ops.error_functions import ndtri as ndtri
from tapeline.runtime.ops.gamma_functions import digamma as digamma
from tapeline.runtime.ops.gamma_functions import gamma as gamma
from tapeline.runtime.ops.gamma_functions import gammaln as gammaln
from tapeline.runtime.ops.gamma_functions import multigammaln as multigammaln
from tapeline.runtime.ops.gamma_functions import psi as psi
from tapeline.runtime.ops.sinc import sinc as sinc
from tapeline.runtime.ops.softmax import log_softmax as log_softmax
from tapeline.runtime.ops.softmax import logsumexp as logsumexp
from tapeline.runtime.ops.softmax import softmax as softmax
from tapeline.runtime.ops.special import erf as erf
from tapeline.runtime.ops.special import sigmoid as expit
from tapeline.runtime.ops.zeta_functions import polygamma as polygamma
from tapeline.runtime.ops.zeta_functions import zeta as zeta

__all__ = [
    "beta", "betaln", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "expit", "gamma",
    "gammaln", "i0", "i0e", "i1", "i1e", "kl_div", "log1mexp", "log_expit", "log_ndtr",
    "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "polygamma", "psi",
    "rel_entr", "sinc", "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
