"""Which images make which update? Batches in a drawn order, shared out to processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from routelab.records import Refusal
from routelab.training.ranks import Ranks
from routelab.training.recipe import Recipe


@dataclass(frozen=True)
class Plan:
    """Batches and updates of an epoch; everything follows from recipe, images and processes."""

    recipe: Recipe
    images: int
    ranks: Ranks

    @classmethod
    def of(cls, recipe: Recipe, images: int, ranks: Ranks) -> Plan:
        """The plan, refused where it holds no update."""
        ranks.check(recipe.batch_size)
        if recipe.drop_last and recipe.batch_size > images:
            raise Refusal(
                f"a batch of {recipe.batch_size} images is more than the {images} there are, and "
                "drop_last leaves out what is not full; lower batch_size or leave drop_last out"
            )
        if images < ranks.world:
            raise Refusal(f"{images} images cannot be shared out to {ranks.world} processes")
        return cls(recipe, images, ranks)

    @property
    def used(self) -> int:
        """Images of an epoch: all, but for a last batch that is not full or too small to share."""
        rest = self.images % self.recipe.batch_size
        left_out = self.recipe.drop_last or rest < self.ranks.world
        return self.images - rest if left_out else self.images

    @property
    def sizes(self) -> list[int]:
        """Images of each batch of an epoch, over all processes."""
        size = self.recipe.batch_size
        return [min(size, self.used - start) for start in range(0, self.used, size)]

    @property
    def updates_an_epoch(self) -> int:
        """Updates of an epoch; each takes `accumulation` batches, the last one what is left."""
        return -(-len(self.sizes) // self.recipe.accumulation)

    @property
    def updates(self) -> int:
        """Updates of the whole training."""
        return self.recipe.updates or self.recipe.epochs * self.updates_an_epoch

    @property
    def epochs(self) -> int:
        """Epochs that are begun; the last one may be cut short."""
        return -(-self.updates // self.updates_an_epoch)

    def updates_in(self, epoch: int) -> int:
        """Updates of an epoch (from 1); the last has what is left."""
        return min(self.updates_an_epoch, self.updates - (epoch - 1) * self.updates_an_epoch)

    def images_after(self, updates: int) -> int:
        """Images that have passed after so many updates."""
        epochs, within = divmod(updates, self.updates_an_epoch)
        return epochs * self.used + sum(self.sizes[: within * self.recipe.accumulation])

    @property
    def local_batch(self) -> int:
        """Images of a batch on this process."""
        return self.recipe.batch_size // self.ranks.world

    def of_update(self, number: int) -> list[int]:
        """Images of each batch of the update with this number within its epoch, from 0."""
        first = number * self.recipe.accumulation
        return self.sizes[first : first + self.recipe.accumulation]

    def order(self, epoch: int, *, skip: int = 0) -> NDArray[np.int64]:
        """The images of an epoch (from 1) on this process, without its first `skip` updates.

        Orders are drawn one after the other from one generator, so that of an epoch follows from
        its number.
        """
        generator = np.random.default_rng(self.recipe.seed)
        for _ in range(epoch - 1):
            generator.permutation(self.images)
        order = generator.permutation(self.images)[: self.used]
        done = skip * self.recipe.accumulation * self.recipe.batch_size
        return self.ranks.share(order[done:], self.recipe.batch_size)
