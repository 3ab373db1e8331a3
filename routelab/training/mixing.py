"""What does a batch look like after Mixup or CutMix, and what are its labels then?"""

from __future__ import annotations

import torch
from timm.data.mixup import Mixup, mixup_target
from torch import Tensor

from routelab.data import drawing_from
from routelab.training.recipe import Recipe


class Mixer:
    """timm's Mixup with random numbers that follow from seed, process and batch alone."""

    def __init__(self, recipe: Recipe, classes: int, rank: int) -> None:
        self.recipe, self.classes, self.rank = recipe, classes, rank
        chosen = recipe.mixing
        self.mixup = Mixup(
            mixup_alpha=chosen.mixup,
            cutmix_alpha=chosen.cutmix,
            prob=chosen.probability,
            switch_prob=chosen.switch,
            label_smoothing=recipe.label_smoothing,
            num_classes=classes,
        )

    def __call__(self, pixels: Tensor, labels: Tensor, batch: int) -> tuple[Tensor, Tensor]:
        """Mixed pixels `(b, c, h, w)` and targets `(b, C)`, smoothed; `batch` counts from 0.

        The images of a batch are mixed in pairs; the last of an odd number stays as it is.
        """
        even = len(pixels) // 2 * 2
        with drawing_from(self.recipe.seed, self.rank, batch):
            mixed, targets = self.mixup(pixels[:even].clone(), labels[:even])
        if even == len(pixels):
            return mixed, targets
        last = mixup_target(labels[even:], self.classes, 1.0, self.recipe.label_smoothing)
        return torch.cat([mixed, pixels[even:]]), torch.cat([targets, last])
