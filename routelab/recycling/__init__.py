"""How does a dense checkpoint become a Mixture-of-Experts one, and what is lost on the way?"""

from routelab.recycling.cost import Cost
from routelab.recycling.job import Look, RecycleReport, recycle_to
from routelab.recycling.layers import resolve_layers
from routelab.recycling.lineage import (
    LineageRow,
    chance_overlap,
    channel_alignment,
    coverage,
    drift,
    jaccard_matrix,
    lineage_rows,
    mean_overlap,
)
from routelab.recycling.options import RecycleOptions
from routelab.recycling.preservation import LayerPreservation, function_preservation
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
    "LayerPreservation",
    "LayerStatistics",
    "LineageRow",
    "Look",
    "RecycleOptions",
    "RecycleReport",
    "Recycled",
    "activation_statistics",
    "balanced_sample",
    "chance_overlap",
    "channel_alignment",
    "coverage",
    "data_fingerprint",
    "drift",
    "function_preservation",
    "jaccard_matrix",
    "lineage_rows",
    "load_statistics",
    "mean_overlap",
    "open_source",
    "recycle",
    "recycle_to",
    "resolve_layers",
    "save_statistics",
    "select_weights",
    "selected_weights",
]
