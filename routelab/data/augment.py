"""What may change in an image without changing its class? Crops, shifts and mirror images."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from routelab.records import Record


class Augmentation(Record):
    """Random crop and mirroring of whole batches, the same for the same generator."""

    smallest_crop: float = Field(
        default=1.0, gt=0, le=1, description="area of the smallest crop, as a share of the image"
    )
    shift: float = Field(
        default=0.0, ge=0, lt=1, description="largest shift, as a share of the side"
    )
    mirror: bool = Field(default=False, description="flip left and right in half of the images")

    @property
    def active(self) -> bool:
        """True if it changes anything."""
        return self.smallest_crop < 1 or self.shift > 0 or self.mirror


def augment(pixels: Tensor, choice: Augmentation, generator: torch.Generator) -> Tensor:
    """Augmented copy of `pixels (b, c, h, w)`; one bilinear resampling for crop, shift and flip.

    Crops are square shares of the image with area drawn uniformly; what lies outside the image is
    its reflection.
    """
    if not choice.active:
        return pixels
    images = len(pixels)
    draw = torch.rand(4, images, generator=generator)
    side = (choice.smallest_crop + (1 - choice.smallest_crop) * draw[0]).sqrt()
    flip = torch.where(draw[3] < 0.5, -1.0, 1.0) if choice.mirror else torch.ones(images)
    room = (1 - side) + 2 * choice.shift
    theta = torch.zeros(images, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1] = side * flip, side
    theta[:, :, 2] = ((2 * draw[1:3] - 1) * room).T
    grid = affine_grid(theta.to(pixels), list(pixels.shape), align_corners=False)
    return grid_sample(pixels, grid, padding_mode="reflection", align_corners=False)
