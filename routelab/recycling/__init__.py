"""How does a dense checkpoint become a Mixture-of-Experts one, and what is lost on the way?"""

from routelab.recycling.cost import Cost
from routelab.recycling.options import RecycleOptions
from routelab.recycling.recycler import Recycled, recycle
from routelab.recycling.sampling import balanced_sample
from routelab.recycling.sources import DenseSource, open_source
from routelab.recycling.statistics import (
    ActivationStatistics,
    LayerStatistics,
    activation_statistics,
    data_fingerprint,
)
from routelab.recycling.statistics_file import load_statistics, save_statistics
from routelab.recycling.weight_selection import select_weights, selected_weights

__all__ = [
    "ActivationStatistics",
    "Cost",
    "DenseSource",
    "LayerStatistics",
    "RecycleOptions",
    "Recycled",
    "activation_statistics",
    "balanced_sample",
    "data_fingerprint",
    "load_statistics",
    "open_source",
    "recycle",
    "save_statistics",
    "select_weights",
    "selected_weights",
]
