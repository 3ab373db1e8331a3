"""What is made, one file or store a step, and what is kept when the demo runs again?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from routelab.analysis import analyze
from routelab.capture import CaptureOptions, capture
from routelab.data import Augmentation, InMemory, open_data
from routelab.demo.variants import ARCHITECTURE, ARGUMENTS, TRANSFORM, Variant
from routelab.models import load_checkpoint
from routelab.records import ModelCard, Refusal
from routelab.recycling import activation_statistics, open_source, recycle
from routelab.report import write_report
from routelab.store import CaptureStore, open_store
from routelab.training import Recipe, start_dense, start_moe, train_to

Told = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How long each training is; `quick` only shows that everything works."""

    training_images: int | None = None
    dense_epochs: int = 13
    moe_epochs: int = 4
    permutations: int = 499

    @classmethod
    def chosen(cls, *, quick: bool) -> Plan:
        """The plan, or the least that shows every step."""
        return cls(320, 2, 1, 99) if quick else cls()


@dataclass(frozen=True)
class Workshop:
    """Where the demo works: folder, plan, seed, images for training and for testing."""

    out: Path
    plan: Plan
    seed: int
    training: InMemory
    testing: InMemory
    told: Told
    doing: Told

    def path(self, name: str) -> Path:
        """A file of the demo."""
        return self.out / name

    def step(self, says: str, make: Callable[[], str]) -> None:
        """Do one step, and tell what came of it and how long it took."""
        self.doing(says)
        began = time.perf_counter()
        outcome = make()
        self.told(f"{says:<34} {outcome}  ({time.perf_counter() - began:.1f} s)")


def dense_model(shop: Workshop) -> tuple[nn.Module, ModelCard]:
    """The dense ViT, trained or read back."""
    path = shop.path("dense.safetensors")
    if not path.exists():
        recipe = Recipe(
            epochs=shop.plan.dense_epochs,
            batch_size=32,
            learning_rate=4e-3,
            augmentation=Augmentation(shift=0.05),
            seed=shop.seed,
        )
        model, card = start_dense(
            ARCHITECTURE, shop.training.classes, TRANSFORM, arguments=ARGUMENTS, seed=shop.seed
        )
        says = "train a dense ViT"
        shop.step(says, lambda: _train(shop, says, path, model, card, recipe))
    return load_checkpoint(path)


def moe_checkpoint(
    shop: Workshop, variant: Variant, dense: nn.Module, dense_card: ModelCard
) -> Path:
    """A variant made of the dense model and fine-tuned, or as it was."""
    path = shop.path(f"{variant.name}.safetensors")
    if not path.exists():
        recipe = Recipe(
            epochs=shop.plan.moe_epochs,
            batch_size=32,
            learning_rate=1.5e-3,
            auxiliary=variant.auxiliary,
            augmentation=Augmentation(shift=0.05),
            seed=shop.seed,
        )
        model, card = _untrained(shop, variant, dense, dense_card)
        says = f"{variant.name}: {'recycle' if variant.recycled else 'copy'} and fine-tune"
        shop.step(says, lambda: _train(shop, says, path, model, card, recipe))
    return path


def _untrained(
    shop: Workshop, variant: Variant, dense: nn.Module, dense_card: ModelCard
) -> tuple[nn.Module, ModelCard]:
    """A variant whose experts are copies of the dense MLPs, or made of their chosen neurons."""
    if variant.recycled is None:
        return start_moe(dense, dense_card, variant.spec, seed=shop.seed)
    images = open_data("digits", TRANSFORM, split="train", limit=shop.plan.training_images)
    statistics = activation_statistics(dense, images, variant.spec.layers, source=dense_card.sha256)
    source = open_source(shop.path("dense.safetensors"))
    made = recycle(source, variant.spec, variant.recycled, statistics=statistics)
    return made.model, made.card


def captured_store(shop: Workshop, variant: Variant, checkpoint: Path) -> Path:
    """The routing of the test images; a broken-off capture goes on where it stopped."""
    path = shop.path(f"{variant.name}.zarr")
    broken_off = path.exists()
    if broken_off and open_store(path).card.complete:
        return path
    options = CaptureOptions(
        checkpoint=checkpoint,
        data="digits",
        split="test",
        out=path,
        features="pooled",
        device="cpu",
        resume=broken_off,
    )

    def make() -> str:
        report = capture(options)
        if report.status != "complete":
            raise Refusal(f"the demo was interrupted; run it again, it goes on in {shop.out}")
        return f"{report.committed} images, {len(report.certificate.checks)} checks passed"

    shop.step(f"{variant.name}: capture", make)
    return path


def analysed_store(shop: Workshop, variant: Variant, path: Path) -> CaptureStore:
    """The store with its Results; saved ones are read back."""
    store = open_store(path)

    def make() -> str:
        outcomes = analyze(store, seed=shop.seed, permutations=shop.plan.permutations)
        answered = sum(outcome.result is not None for outcome in outcomes)
        return f"{answered} of {len(outcomes)} questions answered"

    shop.step(f"{variant.name}: analyse", make)
    return store


def written_report(shop: Workshop, variant: Variant, store: CaptureStore) -> Path:
    """The report, always anew: it costs a second."""
    path = shop.path(f"{variant.name}.html")

    def make() -> str:
        return f"{write_report(store, path)}"

    shop.step(f"{variant.name}: report", make)
    return path


def _train(
    shop: Workshop, says: str, path: Path, model: nn.Module, card: ModelCard, recipe: Recipe
) -> str:
    """Train and save; the test accuracy in words."""
    from routelab.training import evaluate

    card, _ = train_to(
        path,
        model,
        card,
        shop.training,
        recipe,
        progress=lambda done, total: shop.doing(f"{says} {done / total:.0%}"),
    )
    right = evaluate(model, shop.testing)
    return f"{right.accuracy:.1%} of {right.n} test images right"
