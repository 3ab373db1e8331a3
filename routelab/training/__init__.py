"""How is a checkpoint made? One recipe, one loop, every part of the loss in the log."""

from routelab.training.evaluation import Evaluation, evaluate
from routelab.training.history import Epoch, History
from routelab.training.loop import train, train_to
from routelab.training.recipe import (
    Auxiliary,
    Contrastive,
    LowRank,
    Mixing,
    Recipe,
)
from routelab.training.starting import start_dense, start_moe

__all__ = [
    "Auxiliary",
    "Epoch",
    "Evaluation",
    "History",
    "Recipe",
    "evaluate",
    "start_dense",
    "start_moe",
    "train",
    "train_to",
]
