"""What does each fault, and each truth, look like? Stores planted with a known answer.

The tests use them, and so do the documents: a reader who has seen a planted dead expert recognises
a real one.
"""

from routelab.testing.planted import PLANTED, planted_layer, planted_store

__all__ = ["PLANTED", "planted_layer", "planted_store"]
