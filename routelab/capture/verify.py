"""Does a store still say what its model does? The checks of the certificate, run again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from routelab.capture.certificate import StoredArrays, Witness
from routelab.capture.forward import Forward
from routelab.capture.machine import find_machine
from routelab.capture.recording import full_names
from routelab.capture.taps import uncompiled
from routelab.data import Images, open_data
from routelab.models import load_checkpoint, moe_layers
from routelab.records import Check, DataCard, ModelCard, Refusal, RouterSpec
from routelab.store import CaptureStore, open_store

VERIFIED_BATCHES = 4
"""Batches that `--verify` replays, spread evenly over the images."""


def replay_store(
    path: Path, checkpoint: Path, *, data: str | None = None, device: str = "cpu"
) -> tuple[Check, ...]:
    """Replay a store's routing through the model that it was captured from.

    Parameters
    ----------
    path
        A complete store.
    checkpoint
        The checkpoint that it was captured from; its SHA-256 is compared.
    data
        Where its images are now; None takes the place in its card.
    device
        Where the model runs.

    Returns
    -------
    tuple of Check
        Sums, rounding and replay errors over evenly spread batches.

    Raises
    ------
    Refusal
        If the checkpoint or the images are not those of the store, or the store is not complete.
    """
    store = open_store(path)
    if not store.card.complete:
        raise Refusal(f"{path} is not complete; go on with `routelab capture … --resume` first")
    model, card = load_checkpoint(checkpoint)
    _same_model(store.card.model, card, path, checkpoint)
    capture = store.card.capture
    images = open_data(
        data or store.card.data.source,
        card.transform,
        split=store.card.data.split,
        on_corrupt="skip",
        limit=store.committed,
    )
    _same_images(store.card.data, images.card, path)
    machine = find_machine(device, capture.dtype)
    model = uncompiled(model).eval().to(machine.device)
    forward = Forward(model, moe_layers(model), machine, card.transform)
    witness = Witness(
        forward,
        store.layers,
        features=capture.features != "none",
        stored=stored_arrays(store, machine.device),
    )
    look_again(witness, images, capture.batch_size, VERIFIED_BATCHES)
    return witness.checks()


def look_again(witness: Witness, data: Images, batch_size: int, batches: int) -> None:
    """Show the witness the first batch, and others spread evenly, as the capture composed them."""
    last = (len(data) - 1) // batch_size
    for number in sorted(set(np.linspace(0, last, batches).round().astype(int).tolist())):
        start = number * batch_size
        for batch in islice(data.batches(batch_size, start=start), 1):
            witness.see(batch.pixels.to(witness.device), start)


def stored_arrays(store: CaptureStore, device: torch.device) -> StoredArrays:
    """A reader of full routing for a witness; gives nothing of images not stored in full."""

    def read(spec: RouterSpec, start: int, count: int) -> Mapping[str, Tensor]:
        stop = min(start + count, store.full)
        if stop <= start:
            return {}
        rows = slice(start, stop)
        return {
            name: torch.from_numpy(np.array(store.full_array(spec.key, name, rows))).to(device)
            for name in full_names(spec)
        }

    return read


def _same_model(stored: ModelCard, found: ModelCard, path: Path, checkpoint: Path) -> None:
    if stored.sha256 != found.sha256:
        raise Refusal(
            f"{path} was captured from another checkpoint than {checkpoint} "
            f"(SHA-256 {stored.sha256[:12]} and {found.sha256[:12]}); give the one that it names"
        )


def _same_images(stored: DataCard, found: DataCard, path: Path) -> None:
    if stored.sha256 != found.sha256:
        raise Refusal(
            f"the images of {found.source} are not the {stored.images} that {path} was captured "
            "from; say with --data where those are"
        )
