"""Kernels of one backend are tested on this backend. The others may not be installed."""

from __future__ import annotations

import keras

collect_ignore_glob = [
    f"test_{backend}_*.py"
    for backend in ("jax", "tensorflow", "torch")
    if backend != keras.backend.backend()
]
