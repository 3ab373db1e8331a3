"""Where does an arm start? One checkpoint for each seed, made the way the arm says."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from routelab.data import open_data
from routelab.models import build, save_checkpoint
from routelab.records import ModelCard
from routelab.recycling import (
    ActivationStatistics,
    DenseSource,
    activation_statistics,
    balanced_sample,
    open_source,
    recycle,
    select_weights,
)
from routelab.study.config import Arm, Study
from routelab.training import RunConfig, start_moe, with_new_head


class Origin:
    """The dense source of a study, opened once, and what was seen of its activations."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.seen: dict[tuple[object, ...], ActivationStatistics] = {}

    @cached_property
    def source(self) -> DenseSource:
        """The source as its file has it."""
        asked = self.study.source
        return open_source(Path(asked.checkpoint), architecture=asked.model, size=asked.size)

    def check(self) -> None:
        """Refuse a source or images that are not there, before anything is written."""
        transform = self.source.card.transform
        for arm in self.study.arms:
            data = self.study.config(arm, self.study.seeds[0]).data
            for split in (data.split, data.validation):
                open_data(data.source, transform, split=split, limit=1)

    def start(self, arm: Arm, config: RunConfig, out: Path) -> ModelCard:
        """Write the checkpoint that a run of this arm begins with."""
        model, card = self._model(arm, config)
        return save_checkpoint(out, model, card)

    def _model(self, arm: Arm, config: RunConfig) -> tuple[nn.Module, ModelCard]:
        seed = config.recipe.seed
        dense = self._with_head(config)
        if arm.scratch:
            update: dict[str, Any] = {
                "spec": arm.moe,
                "source": "from scratch",
                "sha256": "",
                "metrics": {},
            }
            card = dense.card.model_copy(update=update)
            return build(card, seed=seed), card
        if arm.recycle is not None and arm.moe is not None:
            options = arm.recycle.model_copy(update={"seed": seed})
            made = recycle(dense, arm.moe, options, statistics=self._statistics(arm, config, dense))
            return made.model, made.card
        if arm.select is not None:
            update = {"architecture": arm.select.architecture, "arguments": arm.select.arguments}
            model, card = select_weights(dense, dense.card.model_copy(update=update), seed=seed)
            dense = DenseSource(model, card, dense.sha256)
        if arm.moe is not None:
            return start_moe(dense.model, dense.card, arm.moe, seed=seed)
        return dense.model, dense.card

    def _with_head(self, config: RunConfig) -> DenseSource:
        """The source with a fresh classifier for the data's classes, the same for all arms."""
        model, card, sha256 = self.source
        data, seed = config.data, config.recipe.seed
        classes = open_data(data.source, card.transform, split=data.split, limit=1).classes
        model, headed = with_new_head(model, card, classes, seed=seed)
        return DenseSource(model, headed.model_copy(update={"sha256": sha256}), sha256)

    def _statistics(
        self, arm: Arm, config: RunConfig, dense: DenseSource
    ) -> ActivationStatistics | None:
        """Of training images, equally from each class; measured once for all that ask the same."""
        options, spec = arm.recycle, arm.moe
        if options is None or spec is None or not options.looks_at_images:
            return None
        layers = sorted(spec.layers) if options.width is None else None
        key = (tuple(layers or ()), options.statistics_kind, arm.look)
        if key not in self.seen:
            images = open_data(config.data.source, dense.card.transform, split=config.data.split)
            generator = np.random.default_rng(0)
            self.seen[key] = activation_statistics(
                self.source.model,
                images.subset(balanced_sample(images.labels, arm.look, generator)),
                layers,
                coactivation=options.statistics_kind,
                source=dense.sha256,
            )
        return self.seen[key]
