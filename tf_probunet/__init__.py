"""The Probabilistic U-Net for segmenting ambiguous images (Kohl et al., 2018).

Importing the package is quick: TensorFlow is loaded only by the modules that use it.
"""

from tf_probunet import lane as _lane

__version__ = "0.2.0"

_lane.prepare()
