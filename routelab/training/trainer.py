"""How does a model learn from images? Epochs of updates: forward, backward, clip, step.

A trainer stands still after every update: its state can be taken then, and put into another one.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from timm.utils.model_ema import ModelEmaV3
from torch import Tensor, nn

from routelab.data import AugmentedImages, Batch, Images, InMemory, augment
from routelab.records import Refusal
from routelab.training.depth import set_drop_path
from routelab.training.gauges import RoutingGauge, logit_scales
from routelab.training.history import Epoch, Update
from routelab.training.memory import peak_bytes
from routelab.training.mixing import Mixer
from routelab.training.norms import GradientNorms
from routelab.training.objective import Seen, check_losses, loss_of, watched_routers
from routelab.training.parameters import optimizer_of, schedule_of
from routelab.training.plan import Plan
from routelab.training.precision import Numbers
from routelab.training.prefix import Suffix, Tokens, compute_tokens
from routelab.training.ranks import ALONE, Ranks
from routelab.training.recipe import Recipe

Source = Images | InMemory | AugmentedImages | Tokens


class Trainer:
    """One training: model, optimizer, running means, and where it stands.

    Attributes
    ----------
    model
        The model that learns, in place.
    average
        Running mean of its weights, where the recipe has one.
    epoch, within, update
        The epoch that is under way (from 1), updates done of it, and updates done in all.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Images | InMemory | AugmentedImages,
        recipe: Recipe,
        *,
        device: torch.device,
        ranks: Ranks = ALONE,
    ) -> None:
        self.model, self.recipe, self.device, self.ranks = model, recipe, device, ranks
        check_losses(model, recipe)
        self.plan = Plan.of(recipe, len(data), ranks)
        set_drop_path(model, recipe.drop_path)
        self.data, network = _prefixed(model, data, recipe, device)
        self.average = ModelEmaV3(model, decay=recipe.ema) if recipe.ema is not None else None
        self.optimizer = optimizer_of(model, recipe)
        self.schedule = schedule_of(self.optimizer, recipe, self.plan.updates)
        self.numbers = Numbers(recipe.precision, device)
        self.norms = GradientNorms(model)
        self.gauge = RoutingGauge(model, device)
        self.mixer = Mixer(recipe, len(data.classes), ranks.rank) if recipe.mixing.active else None
        self.generator = torch.Generator().manual_seed(recipe.seed + ranks.rank)
        self.network = ranks.parallel(network)
        self.still = frozen_modules(model)
        self.epoch, self.within, self.update = 1, 0, 0
        self.sums: dict[str, float] = defaultdict(float)

    @property
    def best_model(self) -> nn.Module:
        """The running mean where there is one, else the model itself."""
        return self.model if self.average is None else self.average.module

    def run(self) -> Iterator[Update | Epoch]:
        """Each update, and after the last one of an epoch the epoch, from where it stands."""
        with watched_routers(self.model, self.recipe) as seen, self.gauge.watching():
            while self.epoch <= self.plan.epochs:
                yield from self._epoch(seen)

    def _epoch(self, seen: Seen) -> Iterator[Update | Epoch]:
        began, images = time.perf_counter(), 0
        _learn(self.model, self.still)
        batches = self._batches()
        for number in range(self.within, self.plan.updates_in(self.epoch)):
            sizes = self.plan.of_update(number)
            start = time.perf_counter()
            values = self._update(batches, sizes, seen)
            self._add(values, sum(sizes))
            images += sum(sizes)
            self.within, self.update = number + 1, self.update + 1
            yield self._measured(values, sum(sizes) / (time.perf_counter() - start))
            _learn(self.model, self.still)
        epoch = self._summary(images / (time.perf_counter() - began))
        self.epoch, self.within = self.epoch + 1, 0
        self.sums.clear()
        self.gauge.clear()
        yield epoch

    def _batches(self) -> Iterator[Batch]:
        """What is left of this epoch's batches, on this process."""
        data = self.data
        if isinstance(data, AugmentedImages):
            data = data.at_epoch(self.epoch)
        order = self.plan.order(self.epoch, skip=self.within)
        return iter(data.batches(self.plan.local_batch, order=order))

    def _update(self, batches: Iterator[Batch], sizes: list[int], seen: Seen) -> dict[str, float]:
        """One update from batches of these sizes; what it measured."""
        self.schedule.step_update(self.update)
        self.optimizer.zero_grad()
        images = sum(sizes)
        measured = []
        for number, size in enumerate(sizes):
            with self._held_back(number < len(sizes) - 1):
                values = self._batch(next(batches), size / images, seen, number)
            measured.append({name: value * (size / images) for name, value in values.items()})
        self.numbers.unscale(self.optimizer)
        norms = self.norms.measure()
        whole = norms.square().sum().sqrt()
        self.norms.clip(whole, self.recipe.clip)
        self.numbers.step(self.optimizer)
        if self.average is not None:
            self.average.update(self.model)
        means = {name: torch.stack([m[name] for m in measured]).sum() for name in measured[0]}
        means["gradient_norm"] = whole
        means |= {f"norm {part}": norm for part, norm in zip(self.norms.names, norms, strict=True)}
        return _on_host(means)

    def _held_back(self, more: bool) -> Any:
        """Gradients of a batch are averaged over processes with the last batch of the update."""
        network = self.network
        if more and isinstance(network, nn.parallel.DistributedDataParallel):
            return network.no_sync()
        return nullcontext()

    def _batch(self, batch: Batch, share: float, seen: Seen, number: int) -> dict[str, Tensor]:
        """Forward and backward of one batch, which is this share of the update."""
        seen.clear()
        pixels, targets = batch.pixels.to(self.device), batch.labels.to(self.device)
        pixels = augment(pixels, self.recipe.augmentation, self.generator)
        if self.mixer is not None:
            place = self.update * self.recipe.accumulation + number
            pixels, targets = self.mixer(pixels, targets, place)
        with self.numbers.forward():
            logits = self.network(pixels)
        loss = loss_of(logits, targets, seen, self.recipe, self.ranks)
        if not torch.isfinite(loss.total):
            raise Refusal(
                f"the loss is not finite at update {self.update + 1} of {self.plan.updates}; lower "
                f"the learning rate ({self.recipe.learning_rate:g}), and check that no image is "
                "blank"
            )
        self.numbers.backward(loss.total * share)
        wanted = targets if targets.ndim == 1 else targets.argmax(dim=1)
        right = (logits.argmax(dim=1) == wanted).float()
        images = self.ranks.total(right.new_tensor(float(len(right))))
        accuracy = self.ranks.total(right.sum()) / images
        parts = {f"part {name}": part for name, part in loss.parts.items()}
        return {"loss": loss.total, "accuracy": accuracy, **parts}

    def _add(self, values: dict[str, float], images: int) -> None:
        """Add an update's values to the epoch's sums; a norm that overflowed is left out."""
        for name, value in values.items():
            if "norm" not in name:
                self.sums[name] += value * images
        self.sums["images"] += images
        if math.isfinite(values["gradient_norm"]):
            self.sums["updates"] += 1
            for name, value in values.items():
                if "norm" in name:
                    self.sums[name] += value

    def _measured(self, values: dict[str, float], rate: float) -> Update:
        return Update(
            update=self.update,
            epoch=self.epoch,
            loss=values["loss"],
            parts=_named(values, "part "),
            accuracy=values["accuracy"],
            learning_rate=max(self._rates()),
            gradient_norm=values["gradient_norm"],
            gradient_norms=_named(values, "norm "),
            images_per_second=rate,
        )

    def _summary(self, rate: float) -> Epoch:
        images, updates = self.sums["images"], max(self.sums["updates"], 1)
        means = {
            name: value / (updates if "norm" in name else images)
            for name, value in self.sums.items()
        }
        return Epoch(
            epoch=self.epoch,
            update=self.update,
            loss=means["loss"],
            parts=_named(means, "part "),
            accuracy=means["accuracy"],
            gradient_norm=means.get("gradient_norm", math.nan),
            gradient_norms=_named(means, "norm "),
            learning_rate=max(self._rates()),
            smallest_rate=min(self._rates()),
            images_per_second=rate,
            memory=peak_bytes(self.device),
            routing=self.gauge.read(self.ranks),
            logit_scales=logit_scales(self.model),
        )

    def _rates(self) -> list[float]:
        return [float(group["lr"]) for group in self.optimizer.param_groups]


def training_mode(model: nn.Module) -> None:
    """Training mode, except for modules of which no parameter learns: they stay as in use."""
    _learn(model, frozen_modules(model))


def frozen_modules(model: nn.Module) -> list[nn.Module]:
    """Modules that have parameters of which none learns."""
    parameters = ((module, list(module.parameters())) for module in model.modules())
    return [m for m, own in parameters if own and not any(p.requires_grad for p in own)]


def _learn(model: nn.Module, still: list[nn.Module]) -> None:
    model.train()
    for module in still:
        module.eval()


def _prefixed(
    model: nn.Module,
    data: Images | InMemory | AugmentedImages,
    recipe: Recipe,
    device: torch.device,
) -> tuple[Source, nn.Module]:
    """What is read and what runs: everything, or tokens and the network above them."""
    if not recipe.cache_prefix or isinstance(data, AugmentedImages):
        return data, model
    dtype = getattr(torch, recipe.cache_dtype)
    size = recipe.batch_size
    tokens = compute_tokens(model, data, batch_size=size, dtype=dtype, device=device)
    return tokens, Suffix(model)


def _on_host(values: dict[str, Tensor]) -> dict[str, float]:
    """The values as numbers, with one wait for the device."""
    return dict(
        zip(values, torch.stack([v.float() for v in values.values()]).tolist(), strict=True)
    )


def _named(values: dict[str, float], prefix: str) -> dict[str, float]:
    """The values whose name begins with the prefix, without it."""
    return {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix)}
