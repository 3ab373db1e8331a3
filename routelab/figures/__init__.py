"""What does routing look like? Values in, a Plotly Figure out; nothing here computes a number.

Every figure has the one theme and a `Caption`: n, the chance level, the interval and what misleads.
"""

from routelab.figures.axes import Group
from routelab.figures.bars import load_bars
from routelab.figures.budget import budget_stack
from routelab.figures.caption import Caption
from routelab.figures.concentration import MassCurve, mass_curves
from routelab.figures.curves import Series, layer_curve
from routelab.figures.flow import expert_flow
from routelab.figures.heatmap import expert_atlas, lift_heatmap, score_heatmap, share_heatmap
from routelab.figures.learning import Learning, learning_curves
from routelab.figures.matrix import expert_matrices, named_matrix
from routelab.figures.overlay import ExpertMap, WeightMap, expert_overlay, weight_overlay
from routelab.figures.page import figure_html, library_html
from routelab.figures.scatter import embedding_scatter
from routelab.figures.theme import config

__all__ = [
    "Caption",
    "ExpertMap",
    "Group",
    "Learning",
    "MassCurve",
    "Series",
    "WeightMap",
    "budget_stack",
    "config",
    "embedding_scatter",
    "expert_atlas",
    "expert_flow",
    "expert_matrices",
    "expert_overlay",
    "figure_html",
    "layer_curve",
    "learning_curves",
    "library_html",
    "lift_heatmap",
    "load_bars",
    "mass_curves",
    "named_matrix",
    "score_heatmap",
    "share_heatmap",
    "weight_overlay",
]
