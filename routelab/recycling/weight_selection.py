"""How does a small dense model start from a large one? By selected weights (Xu et al. 2024).

Weight Selection (arXiv 2311.18823): the first layers, and along each dimension of each tensor the
same evenly spaced elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from routelab.models import build
from routelab.records import ModelCard, Refusal
from routelab.recycling.selection import random_neurons, uniform_indices
from routelab.recycling.selection.layer import Indices
from routelab.recycling.sources import DenseSource

Elements = Literal["uniform", "consecutive", "random"]


class ElementRule:
    """Indices along a dimension, the same wherever so many of so many are wanted.

    "uniform" is the published default, "consecutive" takes the first, "random" one random subset
    for each pair of sizes: the consistency that the paper finds to matter.
    """

    def __init__(self, elements: Elements = "uniform", seed: int = 0) -> None:
        self.elements = elements
        self.generator = np.random.default_rng(seed)
        self.drawn: dict[tuple[int, int], Indices] = {}

    def __call__(self, available: int, wanted: int) -> Indices:
        """`wanted` of `available` indices, sorted; all of them where equal."""
        if self.elements == "uniform" or available == wanted:
            return uniform_indices(available, wanted)
        if self.elements == "consecutive":
            return np.arange(wanted, dtype=np.int64)
        if (available, wanted) not in self.drawn:
            drawn = random_neurons(available, 1, wanted, self.generator)[0]
            self.drawn[available, wanted] = drawn
        return self.drawn[available, wanted]


def selected_weights(
    teacher: Mapping[str, Tensor], student: Mapping[str, Tensor], rule: ElementRule | None = None
) -> dict[str, Tensor]:
    """The student's state dict, cut out of the teacher's; weights of a head are the student's own.

    Tensors are matched by name, so that a student of fewer layers takes the teacher's first ones.

    Raises
    ------
    Refusal
        A weight that the teacher lacks, or has smaller.
    """
    rule = rule or ElementRule()
    chosen = {}
    for name, own in student.items():
        chosen[name] = own if "head" in name else _selected(name, teacher, own, rule)
    return chosen


def select_weights(
    teacher: DenseSource, student: ModelCard, *, elements: Elements = "uniform", seed: int = 0
) -> tuple[nn.Module, ModelCard]:
    """A smaller dense model started from a larger one, in evaluation mode, and its card.

    The head is taken too where classes and rule allow it (same classes): otherwise it is fresh.

    Raises
    ------
    Refusal
        A student that is deeper or wider than the teacher, or of another family.
    """
    model = build(student, seed=seed)
    rule = ElementRule(elements, seed)
    held = teacher.model.state_dict()
    weights = selected_weights(held, model.state_dict(), rule)
    if student.classes and student.classes == teacher.card.classes:
        for name in filter(lambda name: name.startswith("head"), weights):
            weights[name] = _selected(name, held, weights[name], rule)
    model.load_state_dict(weights)
    says = f"weights selected ({elements}) from {teacher.name}"
    return model, student.model_copy(update={"source": says, "sha256": "", "metrics": {}})


def _selected(name: str, teacher: Mapping[str, Tensor], own: Tensor, rule: ElementRule) -> Tensor:
    weight = teacher.get(name)
    if weight is None or weight.ndim != own.ndim:
        raise Refusal(
            f"the teacher has no weight {name} of {own.ndim} dimensions; take a student of the "
            "same family with no more layers"
        )
    for dim, wanted in enumerate(own.shape):
        available = weight.shape[dim]
        if wanted > available:
            raise Refusal(
                f"weight {name} of the student has {wanted} where the teacher has {available}; "
                "take a student that is smaller in every dimension"
            )
        weight = weight.index_select(dim, torch.from_numpy(rule(available, wanted)))
    return weight.clone()
