"""The vectorised tables against loops over images and tokens."""

import math

import numpy as np
import pytest

from routelab.records import GroupRange, RouterSpec, SoftRecipe
from routelab.testing.decisions import decide
from routelab.testing.tables import image_tables, layer_sums

IMAGES, EXPERTS, GRID = 6, 3, (2, 3)
LABELS = np.array([0, 1, 1, -1, 0, 1])


def spec(router):
    image = router == "image"
    return RouterSpec(
        layer="blocks.0.mlp",
        depth=0,
        kind=router,
        tokens=1 if image else 7,
        prefix=0 if image else 1,
        grid=None if image else GRID,
        width=4,
        groups=(GroupRange(name="routed", start=0, stop=EXPERTS, hidden=8),),
        k={"topk": 2, "image": 1}.get(router),
        capacity=1 if router == "topk" else None,
        recipe=SoftRecipe() if router == "soft" else None,
    )


def decision_of(router):
    rng = np.random.default_rng(5)
    layer = spec(router)
    scores = rng.normal(0, 2, (IMAGES, layer.tokens, EXPERTS))
    return layer, decide(scores, layer, rng)


def entropy(shares):
    return -sum(p * math.log(p) for p in shares if p > 0)


def pairs(grid):
    height, width = grid
    for row in range(height):
        for column in range(width):
            here = row * width + column
            if column + 1 < width:
                yield here, here + 1
            if row + 1 < height:
                yield here, here + width


@pytest.mark.parametrize("router", ["soft", "topk", "image"])
def test_tables_are_those_of_a_loop(router):
    layer, decision = decision_of(router)
    tables = image_tables(decision, layer)
    for image in range(IMAGES):
        patches = decision.mass[image, layer.prefix :]
        profile = patches.sum(axis=0) / len(patches)
        best, entropies, largest, margins, away = {}, [], [], [], []
        for token, mass in enumerate(patches):
            if mass.sum() == 0:
                continue
            share = sorted(mass / mass.sum(), reverse=True)
            best[token] = int(np.argmax(mass))
            entropies.append(entropy(share))
            largest.append(share[0])
            margins.append(share[0] - share[1])
            away.append(best[token] != int(np.argmax(profile)))
        hits = [list(best.values()).count(expert) for expert in range(EXPERTS)]
        expected = {
            "profile": profile,
            "hits": hits,
            "token_entropy": np.mean(entropies),
            "hardness": np.mean(largest),
            "margin": np.mean(margins),
            "disagreement": np.mean(away),
        }
        if layer.grid:
            there = [(a, b) for a, b in pairs(layer.grid) if a in best and b in best]
            same = [best[a] == best[b] for a, b in there]
            expected["coherence"] = np.mean(same) if same else math.nan
            expected["prefix_mass"] = decision.mass[image, :1]
        for name, value in expected.items():
            np.testing.assert_allclose(tables[name][image], value, atol=1e-12, err_msg=name)


def test_soft_slots_see_as_many_tokens_as_their_entropy_says():
    layer, decision = decision_of("soft")
    effective = image_tables(decision, layer)["effective_tokens"]
    for image in range(IMAGES):
        columns = decision.dispatch[image].T
        mean = np.mean([math.exp(entropy(column)) for column in columns])
        assert effective[image] == pytest.approx(mean, abs=1e-9)
        assert 1 <= effective[image] <= layer.tokens


def test_dropped_choices_are_counted_over_patches():
    layer, decision = decision_of("topk")
    tables = image_tables(decision, layer)
    slots = decision.stored["slot"]
    for image in range(IMAGES):
        lost = [slot < 0 for token in slots[image, 1:] for slot in token]
        assert tables["dropped"][image] == pytest.approx(np.mean(lost))
        for expert in range(EXPERTS):
            chosen = decision.stored["expert"][image] == expert
            places = slots[image][chosen]
            assert sorted(places[places >= 0]) == list(range(min(chosen.sum(), layer.capacity)))


@pytest.mark.parametrize("router", ["soft", "topk", "image"])
def test_sums_are_those_of_a_loop(router):
    layer, decision = decision_of(router)
    tables = image_tables(decision, layer)
    sums = layer_sums(decision, tables, LABELS, 2, layer)
    together = decision.mass if router == "soft" else decision.kept
    coactivation, entropies, tokens = np.zeros((EXPERTS, EXPERTS)), 0.0, 0
    for image in range(IMAGES):
        for token in range(layer.prefix, layer.tokens):
            here = together[image, token]
            coactivation += np.outer(here, here)
            mass = decision.mass[image, token]
            if mass.sum() > 0:
                entropies += entropy(mass / mass.sum())
                tokens += 1
    np.testing.assert_allclose(sums["coactivation"], coactivation, atol=1e-12)
    assert sums["mass_log_mass"] == pytest.approx(-entropies)
    assert sums["tokens"] == tokens
    np.testing.assert_allclose(sums["load"], tables["hits"].sum(axis=0))
    np.testing.assert_allclose(
        sums["position_mass"], decision.mass[:, layer.prefix :].sum(axis=0), atol=1e-12
    )
    for label in range(2):
        expected = tables["profile"][label == LABELS].sum(axis=0)
        np.testing.assert_allclose(sums["class_mass"][label], expected, atol=1e-12)
    assert sums["class_count"].tolist() == [2, 3]


def test_an_image_whose_tokens_were_all_dropped_has_no_statistics():
    layer, decision = decision_of("topk")
    decision.mass[0] = 0
    tables = image_tables(decision, layer)
    assert np.isnan(tables["token_entropy"][0])
    assert np.isnan(tables["coherence"][0])
    assert tables["hits"][0].tolist() == [0, 0, 0]
    assert tables["profile"][0].tolist() == [0, 0, 0]
