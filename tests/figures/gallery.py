"""One of each figure, and each at its edges; shared by the laws of figures and the browser test."""

import numpy as np

from routelab import figures
from routelab.figures import Caption, ExpertMap, Group, MassCurve, Series, WeightMap

CAPTION = Caption(n=1797, chance="0.125 (1/E)", interval="95%, over images")
EVIL = '</script><script>alert("x")</script>'
LAYERS = ["06", "07", EVIL]
GROUPS = [Group("core", 0, 3), Group("universal", 3, 8)]


def gallery():
    """Figures by a name that begins with the function that made them."""
    rng = np.random.default_rng(0)
    return {**_heatmaps(rng), **_by_layer(rng), **_matrices(rng), **_images(rng)}


def _heatmaps(rng):
    share = rng.dirichlet(np.ones(8), 5)
    share[2] = np.nan
    given = {
        "classes": ["a", "a", "c", EVIL, "e"],
        "order": [4, 3, 2, 1, 0],
        "title": EVIL,
        "caption": CAPTION,
        "groups": GROUPS,
    }
    one = {"classes": ["only"], "title": "one", "caption": CAPTION}
    many = {"classes": [f"class {i}" for i in range(1000)], "title": "many", "caption": CAPTION}
    return {
        "share_heatmap": figures.share_heatmap(share, **given),
        "share_heatmap, one class and expert": figures.share_heatmap([[1.0]], **one),
        "share_heatmap, all undefined": figures.share_heatmap([[np.nan]], **one),
        "share_heatmap, 1000 classes": figures.share_heatmap(
            rng.dirichlet(np.ones(16), 1000), **many
        ),
        "lift_heatmap": figures.lift_heatmap(np.log2(share * 8), **given),
        "lift_heatmap, zero cells": figures.lift_heatmap([[-np.inf]], **one),
        "score_heatmap": figures.score_heatmap(share * 9 - 4, **given),
        "expert_atlas": figures.expert_atlas(
            share[:3] * 8, layers=LAYERS, title="atlas", caption=CAPTION, groups=GROUPS
        ),
        "expert_atlas, one expert": figures.expert_atlas(
            [[1.0]], layers=["06"], title="atlas", caption=CAPTION
        ),
    }


def _by_layer(rng):
    value = np.array([0.2, np.nan, 0.6])
    full = Series(
        value=value,
        low=value - 0.1,
        high=value + 0.1,
        chance=[0.1, 0.1, 0.1],
        chance_low=[0.05, np.nan, 0.05],
        chance_high=[0.15, np.nan, 0.15],
    )
    given = {"layers": LAYERS, "title": "by layer", "caption": CAPTION}
    single = {"layers": ["06"], "title": "one layer", "caption": CAPTION}
    share = rng.dirichlet(np.ones(8), 3)
    share[1, 4:] = np.nan
    steps = np.linspace(0, 1, 9)
    bands = {p: (steps**0.5 - p / 1000, steps**0.5 + p / 1000) for p in (60, 80, 90, 95, 99)}
    curve = MassCurve(steps**0.5, bands)
    terms = {"class": value, "image": value, "token": value, "residual": value}
    return {
        "layer_curve": figures.layer_curve({"one": full, EVIL: full}, unit="share", **given),
        "layer_curve, no chance": figures.layer_curve(
            {"x": Series(value=value)}, unit="u", **given
        ),
        "layer_curve, one layer": figures.layer_curve(
            {"x": Series(value=[0.5], chance=[0.2], chance_low=[0.1], chance_high=[0.3])},
            unit="u",
            **single,
        ),
        "load_bars": figures.load_bars(
            share, groups=[GROUPS] * 3, dead=share < 0.02, cold=share < 0.08, **given
        ),
        "load_bars, one expert": figures.load_bars([[1.0]], **single),
        "load_bars, undefined": figures.load_bars([[np.nan]], **single),
        "budget_stack": figures.budget_stack(terms, ceiling=[2, 2, 2], **given),
        "budget_stack, one layer": figures.budget_stack({"class": [0.1]}, **single),
        "mass_curves": figures.mass_curves(
            {f"layer {layer}": curve for layer in LAYERS},
            fraction=steps,
            of="tokens",
            title="mass",
            caption=CAPTION,
        ),
        "learning_curves": figures.learning_curves(
            {
                EVIL: figures.Learning(
                    spent={"updates": [1, 2]}, value=[0.4, 0.6], low=[0.3, np.nan], high=[0.5, 0.7]
                )
            },
            axes=["updates"],
            unit="accuracy",
            chance=0.1,
            title="learning",
            caption=CAPTION,
        ),
        "mass_curves, no bands": figures.mass_curves(
            {"06": MassCurve([0.0, np.nan])}, fraction=[0, 1], of="slots", title="", caption=CAPTION
        ),
    }


def _matrices(rng):
    matrix = rng.random((4, 4))
    matrix[0, 0] = np.nan
    given = {"unit": "lift", "title": "matrix", "caption": CAPTION}
    joint = rng.dirichlet(np.ones(16)).reshape(4, 4)
    return {
        "expert_matrices": figures.expert_matrices(
            {"06": matrix, EVIL: matrix}, middle=0.5, **given
        ),
        "expert_matrices, one expert": figures.expert_matrices({"06": [[np.nan]]}, **given),
        "named_matrix": figures.named_matrix(
            matrix, rows=["a", "b", "c", EVIL], columns=["a", "a", "a", "a"], **given
        ),
        "expert_flow": figures.expert_flow(
            [joint, joint], layers=LAYERS, title="flow", caption=CAPTION, most=2
        ),
        "expert_flow, one expert": figures.expert_flow(
            [[[1.0]]], layers=["06", "07"], title="flow", caption=CAPTION
        ),
        "expert_flow, one layer": figures.expert_flow(
            [], layers=["06"], title="flow", caption=CAPTION
        ),
    }


def _images(rng):
    points = rng.normal(size=(40, 2))
    points[3] = np.nan
    group = rng.integers(-1, 3, 40)
    pixels = rng.integers(0, 255, (32, 24, 3), dtype=np.uint8)
    expert = rng.integers(-1, 4, (4, 3))
    given = {"title": "image", "caption": CAPTION, "prefix_names": ["class token"]}
    return {
        "embedding_scatter": figures.embedding_scatter(
            points,
            group=group,
            names=["a", "b", EVIL],
            score="silhouette 0.3",
            title="scatter",
            caption=CAPTION,
            hover=[EVIL] * 40,
        ),
        "embedding_scatter, nothing": figures.embedding_scatter(
            np.zeros((0, 2)), group=[], names=[], score="", title="scatter", caption=CAPTION
        ),
        "expert_overlay": figures.expert_overlay(
            pixels, [ExpertMap(EVIL, expert, rng.random((4, 3)), [1], [0.9])], **given
        ),
        "expert_overlay, image level": figures.expert_overlay(
            pixels, [ExpertMap("06", None, None, [1], [0.9])], **given
        ),
        "weight_overlay": figures.weight_overlay(
            pixels, [WeightMap("slot 0", rng.random((4, 3)), [0.5])], unit="weight", **given
        ),
        "weight_overlay, no weight": figures.weight_overlay(
            pixels, [WeightMap("slot 0", np.zeros((4, 3)))], unit="weight", **given
        ),
    }
