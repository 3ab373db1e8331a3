"""How is a checkpoint made? One recipe, one loop, every part of the loss in the log."""

from routelab.training.config import (
    DataChoice,
    Keeping,
    RunConfig,
    Start,
    described_keys,
    merged,
    read_config,
)
from routelab.training.evaluation import Evaluation, evaluate
from routelab.training.faults import accepted
from routelab.training.folder import RunFolder
from routelab.training.history import Epoch, History, Update
from routelab.training.journal import read_events
from routelab.training.loop import train, train_to
from routelab.training.named import RECIPES, NamedRecipe
from routelab.training.prompts import add_prompts
from routelab.training.recipe import Auxiliary, Contrastive, LowRank, Mixing, Recipe
from routelab.training.run import train_once, train_run
from routelab.training.scores import Scores, score
from routelab.training.starting import start_dense, start_moe, start_run, with_new_head
from routelab.training.trainer import Trainer

__all__ = [
    "RECIPES",
    "Auxiliary",
    "Contrastive",
    "DataChoice",
    "Epoch",
    "Evaluation",
    "History",
    "Keeping",
    "LowRank",
    "Mixing",
    "NamedRecipe",
    "Recipe",
    "RunConfig",
    "RunFolder",
    "Scores",
    "Start",
    "Trainer",
    "Update",
    "accepted",
    "add_prompts",
    "described_keys",
    "evaluate",
    "merged",
    "read_config",
    "read_events",
    "score",
    "start_dense",
    "start_moe",
    "start_run",
    "train",
    "train_once",
    "train_run",
    "train_to",
    "with_new_head",
]
