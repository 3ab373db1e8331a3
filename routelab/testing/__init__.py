"""What does each fault, and each truth, look like? Stores, and models, planted with a known answer.

The tests use them, and so do the documents: a reader who has seen a planted dead expert recognises
a real one.
"""

from routelab.testing.models import (
    PLANTED_MODELS,
    planted_checkpoint,
    planted_images,
    planted_model,
)
from routelab.testing.planted import PLANTED, planted_layer, planted_store

__all__ = [
    "PLANTED",
    "PLANTED_MODELS",
    "planted_checkpoint",
    "planted_images",
    "planted_layer",
    "planted_model",
    "planted_store",
]
