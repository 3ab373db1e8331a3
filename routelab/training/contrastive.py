"""Do images of one class lie together? The supervised contrastive loss of a batch's features."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, normalize


def contrastive_terms(features: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Loss of each image that has another one of its class in the batch, `(m,)`, m up to B.

    For image i with the other images P(i) of its class: -1/|P(i)| Σ_{p in P(i)} log softmax over
    all others of ⟨z_i, z_p⟩ / temperature, z = features on the unit sphere (Khosla et al. 2020,
    arXiv 2004.11362, eq. 2).

    Parameters
    ----------
    features
        `(B, d)`.
    labels
        Classes `(B,)`.
    temperature
        Above 0.
    """
    points = normalize(features.float(), dim=1)
    itself = torch.eye(len(points), dtype=torch.bool, device=points.device)
    near = (points @ points.T / temperature).masked_fill(itself, float("-inf"))
    log_share = log_softmax(near, dim=1).masked_fill(itself, 0.0)
    same = (labels[:, None] == labels[None]) & ~itself
    others = same.sum(dim=1)
    paired = others > 0
    return -(log_share * same).sum(dim=1)[paired] / others[paired]
