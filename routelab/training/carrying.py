"""How does an optimizer go on when its dense model has become a MoE model? Moments are copied too.

Sparse Upcycling (arXiv 2212.05055) resumes the optimizer of the dense run for vision models: what
AdamW knows of a dense MLP is what it knows of each of its copies.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import Tensor, nn

from routelab.models import copy_dense, load_checkpoint, moe_layers
from routelab.records import Refusal
from routelab.training.config import read_config
from routelab.training.folder import RunFolder
from routelab.training.parameters import optimizer_of
from routelab.training.recipe import Recipe
from routelab.training.state import newest_state

MOMENTS = ("exp_avg", "exp_avg_sq")

Known = dict[str, dict[str, Tensor]]
"""What AdamW keeps of each parameter, by name: `step` and both moments."""


def carry_over(run: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Give a new model's optimizer what that of a dense run knew; to how many parameters.

    Routers are new and start without moments; so does a classifier of another shape, and what did
    not learn in the run.

    Parameters
    ----------
    run
        A run directory of a dense model, with a state.
    model
        A MoE model whose experts are copies of that model's MLPs, or a dense model like it.

    Raises
    ------
    Refusal
        No run there or none with a state, a run of a MoE model or of adapters, a model of another
        architecture.
    """
    folder = RunFolder(run)
    state = newest_state(folder.states, lambda _: None) if folder.config.exists() else None
    if state is None:
        raise Refusal(f"{run} is no run with a state to go on from; leave start.optimizer out")
    dense, recipe = _dense(folder)
    known = _by_name(dense, recipe, state["optimizer"])
    moments = {kind: _copied(dense, model, known, kind) for kind in MOMENTS}
    step = max(values["step"] for values in known.values())
    given = 0
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and name in moments["exp_avg"]:
            own = {kind: moments[kind][name].to(parameter) for kind in MOMENTS}
            optimizer.state[parameter] = {"step": step.clone(), **own}
            given += 1
    return given


def _dense(folder: RunFolder) -> tuple[nn.Module, Recipe]:
    """The dense model of a run, and its recipe."""
    recipe = read_config(folder.config).recipe
    model, card = load_checkpoint(folder.last)
    if card.spec is not None or recipe.trains != "all":
        raise Refusal(
            f"run {folder.path} did not train all of a dense model, so its optimizer cannot go on; "
            "leave start.optimizer out"
        )
    return model, recipe


def _by_name(model: nn.Module, recipe: Recipe, stored: dict[str, dict[int, object]]) -> Known:
    """A stored optimizer's state by the names of the parameters that it is about."""
    optimizer = optimizer_of(model, recipe)
    optimizer.load_state_dict(stored)
    return {n: optimizer.state[p] for n, p in model.named_parameters() if p in optimizer.state}


@torch.no_grad()
def _copied(dense: nn.Module, model: nn.Module, known: Known, kind: str) -> dict[str, Tensor]:
    """One moment of each parameter of the new model, copied the way that weights are."""
    source, target = copy.deepcopy(dense), copy.deepcopy(model)
    for name, parameter in source.named_parameters():
        parameter.copy_(known[name][kind] if name in known else torch.zeros_like(parameter))
    wanted = {name: p.shape for name, p in target.named_parameters()}
    same = {name for name, p in source.named_parameters() if wanted.get(name) == p.shape}
    heads = {n for n in wanted if n.startswith("head.") and n not in same}
    for name in heads:
        parent, _, leaf = name.rpartition(".")
        setattr(source.get_submodule(parent), leaf, nn.Parameter(torch.zeros(wanted[name])))
    copy_dense(source, target)
    routers = tuple(f"{name}.router." for name in moe_layers(target))
    fresh = heads | {name for name in wanted if name.startswith(routers)}
    return {name: p for name, p in target.named_parameters() if name not in fresh}
