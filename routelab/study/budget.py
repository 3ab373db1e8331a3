"""How many updates does a budget buy an arm? One answer for all its seeds."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from routelab.records import Refusal
from routelab.study.config import Budget
from routelab.training import RunConfig, train_run

PACE = 6
"""Updates that are timed where the budget is wall time."""


def updates_for(budget: Budget, share: float, config: RunConfig, flops: float) -> int:
    """Updates that a share of the budget buys.

    Parameters
    ----------
    config
        The run; its `start.checkpoint` is there.
    flops
        Of one image's forward pass; a training step counts three.

    Raises
    ------
    Refusal
        A budget that does not buy one update.
    """
    images = config.recipe.batch_size * config.recipe.accumulation
    if budget.updates is not None:
        bought = budget.updates * share
    elif budget.images is not None:
        bought = budget.images * share / images
    elif budget.flops is not None:
        bought = budget.flops * share / (3 * flops * images)
    else:
        bought = (budget.seconds or 0) * share * _images_per_second(config) / images
    if bought < 1:
        raise Refusal(f"the budget of {budget.says} buys no update of {images} images; raise it")
    return math.floor(bought + 1e-9)


def _images_per_second(config: RunConfig) -> float:
    """The pace of a few updates, thrown away."""
    recipe = config.recipe.model_copy(update={"updates": PACE})
    data = config.data.model_copy(update={"validation": ""})
    keep = config.keep.model_copy(update={"snapshots": 0})
    update = {"recipe": recipe, "data": data, "keep": keep}
    with tempfile.TemporaryDirectory() as folder:
        history = train_run(
            config.model_copy(update=update), Path(folder) / "pace", told=lambda _: None
        )
    return history.last.images_per_second
