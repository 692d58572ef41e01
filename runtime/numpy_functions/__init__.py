"""NumPy's functions beyond the ops of the library, made of those: what `np.vstack` and its like do
with tensors.

They are reached through NumPy's protocol only and carry no documentation of their own: each does
what NumPy's documentation says of its name, for the arguments that it takes.
"""

from tapeline.runtime.numpy_functions import arrangement as arrangement
from tapeline.runtime.numpy_functions import elements as elements
from tapeline.runtime.numpy_functions import signatures as signatures
from tapeline.runtime.numpy_functions import summaries as summaries
