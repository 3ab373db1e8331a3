"""What do routers upcycled into a pretrained ViT-S/14 learn on 40 Caltech classes in 15 minutes?

    python analyses/vits14_caltech40.py --weights WEIGHTS.safetensors --data caltech40 --out OUT

Blocks 6 to 11 of the real network become token-choice and image-level MoE layers (2 of 8 experts,
gates renormalised), each with and without a shared expert. Experts start as copies of the dense
MLP; the head starts from a logistic regression on the class tokens of the upcycled model; then the
MoE layers and the head are trained (cross-entropy and 0.01 × balance loss) on tokens computed once
below block 6. The 800 test images are captured with full routing, analysed and reported, and the
tables of this study are printed and written to `OUT/README.md`. `caltech40` holds `train/CLASS` and
`test/CLASS`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import timm
import torch
from sklearn.linear_model import LogisticRegression
from timm.models.vision_transformer import checkpoint_filter_fn
from torch import nn

from routelab.analysis import analyze
from routelab.capture import CaptureOptions, capture
from routelab.data import Images, open_data
from routelab.metrics import wilson_interval
from routelab.models import moe_layers, read_card, read_weights
from routelab.records import (
    ExpertGroup,
    ImageRouting,
    ModelCard,
    MoESpec,
    Result,
    TopKRouting,
    Transform,
)
from routelab.report import write_report
from routelab.store import CaptureStore, open_store
from routelab.training import Recipe, evaluate, start_moe, train_to

ARCHITECTURE = "vit_small_patch14_dinov2"
SIZE = 98
EXPERTS = ExpertGroup(experts=8)
SHARED = ExpertGroup(name="shared", experts=1)
ROUTERS = {
    "token": TopKRouting(k=2, renormalize=True),
    "image": ImageRouting(k=2, renormalize=True),
}


def specs() -> dict[str, MoESpec]:
    """The four variants, by name."""
    return {
        f"{name}{'-shared' if shared else ''}": MoESpec(
            layers=tuple(range(6, 12)),
            router=router,
            groups=(EXPERTS,),
            shared=SHARED if shared else None,
        )
        for name, router in ROUTERS.items()
        for shared in (False, True)
    }


def pretrained(weights: Path, classes: tuple[str, ...]) -> tuple[nn.Module, ModelCard]:
    """The dense network with pretrained weights, position embeddings resampled to 98 pixels."""
    arguments = {"img_size": SIZE}
    dense = timm.create_model(ARCHITECTURE, num_classes=len(classes), **arguments)
    stored = {name: weight.float() for name, weight in read_weights(weights).items()}
    missing = dense.load_state_dict(checkpoint_filter_fn(stored, dense), strict=False)
    assert set(missing.missing_keys) == {"head.weight", "head.bias"}, missing
    card = ModelCard(
        architecture=ARCHITECTURE,
        arguments=arguments,
        classes=classes,
        transform=Transform(size=SIZE),
        source=weights.name,
    )
    return dense.eval(), card


@torch.no_grad()
def halve_outputs(model: nn.Module) -> None:
    """Routed and shared copies would add up to twice the dense MLP: take half of each."""
    for layer in moe_layers(model).values():
        if layer.shared is not None:
            for bank in (*layer.experts.in_order(), layer.shared.bank):
                bank.fc2_weight.mul_(0.5)
                bank.fc2_bias.mul_(0.5)


@torch.no_grad()
def fit_head(model: nn.Module, data: Images) -> None:
    """Start the head from a logistic regression on the model's own class tokens."""
    tokens = [
        model.forward_head(model.forward_features(batch.pixels), pre_logits=True)
        for batch in data.batches(64)
    ]
    features = torch.cat(tokens).numpy()
    spread = features.std(axis=0).mean()
    found = LogisticRegression(C=1.0, max_iter=300).fit(features / spread, data.labels)
    model.head.weight.copy_(torch.from_numpy(found.coef_ / spread).float())
    model.head.bias.copy_(torch.from_numpy(found.intercept_).float())


def layer_rows(results: dict[str, Result]) -> list[list[str]]:
    """One row a layer: contrast, AMI, budget and probes, each beside its chance level."""

    def cell(analysis: str, name: str, layer: int, *, chance: bool = True) -> str:
        quantity = results[analysis][name]
        text = f"{quantity.value[layer]:.3f}"
        if quantity.low is not None and quantity.high is not None:
            text += f" [{quantity.low[layer]:.3f}, {quantity.high[layer]:.3f}]"
        if chance and quantity.chance is not None:
            text += f" ({quantity.chance[layer]:.3f})"
        return text

    budget = results["information"]["budget_corrected"].value
    layers = results["consistency"].coords["layer"]
    return [
        [
            name,
            cell("consistency", "contrast", i),
            f"{results['consistency']['p_max_statistic'].value[i]:.3f}",
            cell("consistency", "max_share", i),
            cell("consistency", "ami", i),
            " / ".join(f"{value:.3f}" for value in budget[i]),
            cell("information", "disagreement", i, chance=False),
            cell("probe", "routing_accuracy", i),
            cell("probe", "feature_accuracy", i),
            cell("probe", "efficiency", i, chance=False),
        ]
        for i, name in enumerate(layers)
    ]


HEADER = [
    "layer",
    "contrast [95 %] (chance)",
    "p over layers",
    "max share (chance)",
    "AMI (chance)",
    "class / image / token / residual, nats",
    "tying disagreement",
    "routing probe (chance)",
    "feature probe (chance)",
    "efficiency",
]


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join(
        "| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]
    )


def checkpoint(name: str, spec: MoESpec, training: Images, arguments: argparse.Namespace) -> Path:
    """Path of the trained variant; one that is there already is kept."""
    path: Path = arguments.out / f"{name}.safetensors"
    if path.exists():
        return path
    dense, card = pretrained(arguments.weights, training.classes)
    model, card = start_moe(dense, card, spec)
    halve_outputs(model)
    fit_head(model, training)
    recipe = Recipe(
        epochs=arguments.epochs,
        batch_size=32,
        learning_rate=arguments.learning_rate,
        trains="moe",
        cache_prefix=True,
        auxiliary={"balance": 0.01},
    )
    start, testing = time.perf_counter(), open_data(arguments.data / "test", card.transform)
    card = card.model_copy(
        update={"metrics": {"accuracy_before": evaluate(model, testing).accuracy}}
    )
    train_to(path, model, card, training, recipe)
    print(f"{name}: trained in {time.perf_counter() - start:.0f} s", flush=True)
    return path


def study(name: str, spec: MoESpec, arguments: argparse.Namespace) -> str:
    """Train, capture, analyse and report one variant; its section of the page."""
    out: Path = arguments.out
    training = open_data(arguments.data / "train", Transform(size=SIZE))
    path = checkpoint(name, spec, training, arguments)
    before = read_card(path).metrics["accuracy_before"]
    capture(
        CaptureOptions(
            checkpoint=path,
            data=str(arguments.data / "test"),
            out=out / f"{name}.zarr",
            full="all",
            verify=True,
            overwrite=True,
        )
    )
    store = open_store(out / f"{name}.zarr")
    outcomes = analyze(store, permutations=arguments.permutations)
    write_report(store, out / f"{name}.html")
    results = {o.result.name: o.result for o in outcomes if o.result is not None}
    right = int((store.predictions == store.labels).sum())
    low, high = wilson_interval(right, len(store.labels))
    share = results["load"]["share"].value
    return "\n\n".join(
        [
            f"## {name}",
            f"Test accuracy {before:.3f} before and {right / len(store.labels):.3f} "
            f"[{low:.3f}, {high:.3f}] after {arguments.epochs} epochs; n = {len(store.labels)}, "
            f"chance {1 / len(training.classes):.3f}. Largest and smallest load "
            f"share over layers {np.nanmax(share):.3f} and {np.nanmin(share):.3f} "
            f"(even {1 / 8:.3f}). Replay error {replay_error(store):.1e}.",
            markdown(HEADER, layer_rows(results)),
            "\n".join(f"- {result.summary}" for result in results.values()),
            "\n".join(f"- Warning: {text}" for r in results.values() for text in r.warnings),
        ]
    )


def replay_error(store: CaptureStore) -> float:
    """Largest relative error of the stored routing replayed through the experts."""
    checks = store.card.certificate.checks
    return max(check.value or 0.0 for check in checks if "replay" in check.name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("out/vits14"))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--permutations", type=int, default=999)
    parser.add_argument("--only", nargs="*", choices=list(specs()), default=list(specs()))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    head = "# ViT-S/14 upcycled on 40 Caltech classes\n\n" + " ".join(
        __doc__.split("\n\n")[-1].split()
    )
    sections = [head]
    for name in arguments.only:
        print(f"{name} …", flush=True)
        sections.append(study(name, specs()[name], arguments))
        print(sections[-1], flush=True)
        (arguments.out / "README.md").write_text("\n\n".join(sections) + "\n")


if __name__ == "__main__":
    main()
