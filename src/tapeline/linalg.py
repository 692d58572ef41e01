"""Linear algebra, batched and with gradients, `tl.linalg`: the `linalg` extension of the array API
and more."""

from tapeline.runtime.ops.factorizations import QR as QR
from tapeline.runtime.ops.factorizations import cholesky as cholesky
from tapeline.runtime.ops.factorizations import qr as qr
from tapeline.runtime.ops.least_squares import lstsq as lstsq
from tapeline.runtime.ops.linalg import cross as cross
from tapeline.runtime.ops.linalg import diagonal as diagonal
from tapeline.runtime.ops.linalg import matrix_power as matrix_power
from tapeline.runtime.ops.linalg import multi_dot as multi_dot
from tapeline.runtime.ops.linalg import trace as trace
from tapeline.runtime.ops.matmul import matmul as matmul
from tapeline.runtime.ops.matmul import outer as outer
from tapeline.runtime.ops.matmul import tensordot as tensordot
from tapeline.runtime.ops.matmul import vecdot as vecdot
from tapeline.runtime.ops.matrix_exp import matrix_exp as matrix_exp
from tapeline.runtime.ops.norms import matrix_norm as matrix_norm
from tapeline.runtime.ops.norms import matrix_rank as matrix_rank
from tapeline.runtime.ops.norms import vector_norm as vector_norm
from tapeline.runtime.ops.permuting import matrix_transpose as matrix_transpose
from tapeline.runtime.ops.singular import SVD as SVD
from tapeline.runtime.ops.singular import svd as svd
from tapeline.runtime.ops.singular import svdvals as svdvals
from tapeline.runtime.ops.solving import det as det
from tapeline.runtime.ops.solving import inv as inv
from tapeline.runtime.ops.solving import pinv as pinv
from tapeline.runtime.ops.solving import slogdet as slogdet
from tapeline.runtime.ops.solving import solve as solve
from tapeline.runtime.ops.spectral import eig as eig
from tapeline.runtime.ops.spectral import eigh as eigh
from tapeline.runtime.ops.spectral import eigvals as eigvals
from tapeline.runtime.ops.spectral import eigvalsh as eigvalsh
from tapeline.runtime.ops.triangular import block_diag as block_diag
from tapeline.runtime.ops.triangular import cho_solve as cho_solve
from tapeline.runtime.ops.triangular import solve_triangular as solve_triangular
from tapeline.runtime.ops.triangular import toeplitz as toeplitz
