"""The Probabilistic U-Net for segmenting ambiguous images (Kohl et al., 2018).

Importing the package is quick: TensorFlow is loaded only by the modules that use it.
"""

import os as _os

__version__ = "0.1.0"

# Both must stand before TensorFlow is imported; a user's own setting wins.
# 3 hides the start-up messages about missing CUDA libraries, 2 would show them.
_os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
_os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
