"""Each analysis against plain NumPy, SciPy and scikit-learn on the same store; planted truth."""

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_mutual_info_score, silhouette_score

from routelab.analysis import ANALYSES, analyze
from routelab.records import Refusal
from routelab.store import open_store
from routelab.testing import planted_store

FEW = {"seed": 0, "permutations": 49}
ROUTERS = ("soft", "sphero", "topk", "image")
KINDS = ("healthy", "dead_expert", "collapsed", "position", "uniform")


@pytest.fixture(scope="session")
def result(planted):
    """A Result by analysis, kind of store and router, each computed once."""
    made = {}

    def get(name, kind="healthy", router="soft", **options):
        key = (name, kind, router, *sorted(options.items()))
        if key not in made:
            made[key] = ANALYSES[name].run(planted(kind, router=router, **options), **FEW)
        return made[key]

    return get


def value(result, name, layer=-1):
    return result.quantities[name].value[layer]


def shares_of(store, layer):
    """Image profiles by their definition: mean mass of the patch tokens, rows made to sum to 1."""
    if store.spec(layer).image_level:
        profile = store.mass(layer)[:, 0].astype(float)
    else:
        profile = store.mass(layer)[:, store.spec(layer).prefix :].mean(axis=1, dtype=float)
    total = profile.sum(axis=1, keepdims=True)
    return np.divide(profile, total, out=np.full(profile.shape, np.nan), where=total > 0)


@pytest.mark.parametrize("router", ROUTERS)
def test_load_is_that_of_the_recorded_tokens(planted, result, router):
    store, load = planted("healthy", router=router), result("load", router=router)
    spec = store.layers[-1]
    if spec.soft:
        work = store.mass(spec.key)[:, spec.prefix :].sum(axis=(0, 1), dtype=float)
    else:
        chosen = store.choices(spec.key)
        kept = np.where(chosen["slot"] >= 0, chosen["expert"], -1)[:, spec.prefix :]
        work = np.array([(kept == e).sum() for e in range(spec.experts)], dtype=float)
    share = work / work.sum()
    tolerance = {"rtol": 2e-3}  # full routing is stored in 16 bits, the totals are not
    np.testing.assert_allclose(value(load, "share"), share, **tolerance)
    assert value(load, "effective_experts") == pytest.approx(np.exp(entropy(share)), rel=2e-3)
    assert value(load, "cv2") == pytest.approx(share.var() / share.mean() ** 2, rel=2e-2, abs=1e-6)
    assert value(load, "max_violation") == pytest.approx(share.max() / share.mean() - 1, abs=2e-3)
    ordered = np.sort(share)
    pairs = np.abs(ordered[:, None] - ordered).sum()
    assert value(load, "gini") == pytest.approx(pairs / (2 * len(share)), abs=2e-3)


@pytest.mark.parametrize("router", ROUTERS)
def test_load_finds_the_dead_expert_and_the_collapse(result, router):
    dead = result("load", "dead_expert", router).quantities["dead"].value
    assert dead[:, -1].all()
    assert not dead[:, :-1].any()
    collapsed = result("load", "collapsed", router)
    if router != "topk":  # with k = 2 the other experts keep second choices
        np.testing.assert_allclose(collapsed.quantities["effective_experts"].value, 1, atol=1e-2)
    assert any("collapse" in warning.lower() for warning in collapsed.warnings)


@pytest.mark.parametrize("router", ROUTERS)
def test_consistency_is_that_of_all_pairs_of_images(planted, result, router):
    store, found = planted("healthy", router=router), result("consistency", router=router)
    shares, labels = shares_of(store, "08"), np.asarray(store.labels)
    routed = np.isfinite(shares).all(axis=1)
    shares, labels = shares[routed], labels[routed]
    agreement = shares @ shares.T
    same = labels[:, None] == labels
    other = ~np.eye(len(labels), dtype=bool)
    contrast = agreement[same & other].mean() - agreement[~same].mean()
    assert value(found, "contrast") == pytest.approx(contrast, abs=0.01)
    profile = np.stack([shares[labels == c].mean(axis=0) for c in range(8)])
    np.testing.assert_allclose(value(found, "class_profile"), profile, atol=2e-3)
    assert value(found, "max_share") == pytest.approx(profile.max(axis=1).mean(), abs=2e-3)
    mean = shares.mean(axis=0)
    between = sum((labels == c).sum() * ((profile[c] - mean) ** 2).sum() for c in range(8))
    eta = between / ((shares - mean) ** 2).sum()
    assert value(found, "eta_squared") == pytest.approx(eta, abs=5e-3)
    ami = adjusted_mutual_info_score(labels, shares.argmax(axis=1))
    assert value(found, "ami") == pytest.approx(ami, abs=0.05)
    size = np.bincount(labels) / len(labels)
    information = entropy(size @ profile) - size @ entropy(profile, axis=1)
    assert value(found, "information") == pytest.approx(information, abs=5e-3)


@pytest.mark.parametrize("router", ROUTERS)
def test_consistency_finds_the_planted_layer_and_no_other(result, router):
    p = result("consistency", "class_in_one_layer", router).quantities["p_max_statistic"].value
    assert p[1] <= 0.02 + 1e-9
    assert p[[0, 2]].min() > 0.05
    for kind in ("uniform", "position"):
        if kind == "position" and router == "image":
            continue
        assert result("consistency", kind, router).quantities["p_max_statistic"].value.min() > 0.02


def test_a_collapsed_layer_has_a_share_of_one_and_a_contrast_of_none(result):
    found = result("consistency", "collapsed")
    assert value(found, "max_share") == pytest.approx(1, abs=1e-3)
    assert found.quantities["max_share"].chance[-1] == pytest.approx(1, abs=1e-3)
    assert value(found, "contrast") == pytest.approx(0, abs=1e-3)
    assert found.warnings


@pytest.mark.parametrize("router", ROUTERS)
def test_the_budget_adds_up_to_the_entropy_of_mean_routing(planted, result, router):
    store, found = planted("healthy", router=router), result("information", router=router)
    terms = value(found, "budget")
    shares, labels = shares_of(store, "08"), np.asarray(store.labels)
    shares, labels = (rows[np.isfinite(shares).all(axis=1)] for rows in (shares, labels))
    profile = np.stack([shares[labels == c].mean(axis=0) for c in range(8)])
    size = np.bincount(labels) / len(labels)
    assert terms.sum() == pytest.approx(entropy(shares.mean(axis=0)), abs=1e-2)
    between = entropy(size @ profile) - size @ entropy(profile, axis=1)
    assert terms[0] == pytest.approx(between, abs=5e-3)
    within = size @ entropy(profile, axis=1) - entropy(shares, axis=1).mean()
    assert terms[1] == pytest.approx(within, abs=1e-2)
    corrected = value(found, "budget_corrected")
    assert corrected.sum() == pytest.approx(terms.sum())
    if router == "image":
        assert terms[2] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("router", ["soft", "topk"])
def test_position_tells_the_expert_where_it_was_planted(result, router):
    planted = result("information", "position", router).quantities["position_information"]
    assert (planted.value > 10 * planted.chance).all()
    nothing = result("information", "uniform", router).quantities["position_information"]
    assert (nothing.value < 3 * nothing.chance).all()


def test_specialization_is_that_of_the_class_table(planted, result):
    store, found = planted("healthy"), result("specialization")
    shares, labels = shares_of(store, "08"), np.asarray(store.labels)
    mass = np.stack([shares[labels == c].sum(axis=0) for c in range(8)])
    in_expert = mass / mass.sum(axis=0)
    size = mass.sum(axis=1) / mass.sum()
    np.testing.assert_allclose(value(found, "purity"), in_expert.max(axis=0), atol=2e-3)
    np.testing.assert_allclose(value(found, "lift"), in_expert / size[:, None], atol=1e-2)
    divergence = [jensenshannon(in_expert[:, e], size, base=2) ** 2 for e in range(4)]
    np.testing.assert_allclose(value(found, "divergence"), divergence, atol=2e-3)
    top = value(found, "top_class").astype(int)
    assert (top % 4).tolist() == [0, 1, 2, 3]  # class c was planted at expert c mod E


def test_no_cell_of_a_store_without_classes_differs_from_chance(result):
    assert (result("specialization", "uniform").quantities["q"].value > 0.05).all()


def test_the_probe_reads_the_planted_class_and_nothing_else(planted, result):
    found = result("probe", "class_in_one_layer")
    routing, chance = (
        getattr(found.quantities["routing_accuracy"], n) for n in ("value", "chance")
    )
    np.testing.assert_allclose(chance, 1 / 8)
    assert routing[1] > 0.4
    assert routing[[0, 2]].max() < 0.3
    assert found.quantities["control_accuracy"].value.max() < 0.3
    store = planted("class_in_one_layer")
    rows, labels = shares_of(store, "07"), np.asarray(store.labels)
    fit = LogisticRegression(max_iter=2000, C=1e3).fit(rows[::2], labels[::2])
    assert routing[1] == pytest.approx(fit.score(rows[1::2], labels[1::2]), abs=0.2)
    features, efficiency = (value(found, n, 1) for n in ("feature_accuracy", "efficiency"))
    assert efficiency == pytest.approx((routing[1] - 1 / 8) / (features - 1 / 8))


@pytest.mark.parametrize("router", ["soft", "sphero"])
def test_concentration_is_that_of_the_dispatch_weights(planted, result, router):
    store, found = planted("healthy", router=router), result("concentration", router=router)
    dispatch = store.dispatch("08").astype(float)  # (n, N, S)
    effective = np.exp(entropy(dispatch, axis=1)).mean()
    assert value(found, "effective_tokens") == pytest.approx(effective, rel=1e-5)
    total = dispatch.sum(axis=2)
    total /= total.mean(axis=1, keepdims=True)
    assert value(found, "token_total_above") == pytest.approx((total > 2).mean(), abs=1e-6)
    sorted_mass = -np.sort(-dispatch, axis=1)
    curve = np.concatenate([np.zeros((1,)), sorted_mass.cumsum(axis=1).mean(axis=(0, 2))])
    at = np.linspace(0, 1, 51) * dispatch.shape[1]
    expected = np.interp(at, np.arange(dispatch.shape[1] + 1), curve)
    np.testing.assert_allclose(value(found, "dispatch_curve"), expected, atol=1e-6)


def test_coactivation_is_that_of_kept_pairs(planted, result):
    store, found = planted("healthy", router="topk"), result("coactivation", router="topk")
    chosen, spec = store.choices("08"), store.spec("08")
    kept = np.zeros((*chosen["expert"].shape[:2], spec.experts))
    for choice in range(chosen["expert"].shape[2]):
        image, token = np.nonzero(chosen["slot"][..., choice] >= 0)
        kept[image, token, chosen["expert"][image, token, choice]] = 1
    rows = kept[:, spec.prefix :].reshape(-1, spec.experts)
    together = rows.T @ rows
    count = together.diagonal()
    routed = rows.any(axis=1).sum()  # tokens whose every choice was dropped met no expert
    off = ~np.eye(spec.experts, dtype=bool)
    expected = {
        "matrix": together / count[:, None],
        "jaccard": together / (count[:, None] + count - together),
        "lift": together * routed / np.outer(count, count),
    }
    for name, matrix in expected.items():
        np.testing.assert_allclose(value(found, name)[off], matrix[off], atol=1e-9)
        assert np.isnan(value(found, name).diagonal()).all()


def test_paths_are_those_of_the_top_experts(planted, result):
    store, found = planted("healthy", router="image"), result("paths", router="image")
    top = np.stack([shares_of(store, key).argmax(axis=1) for key in ("06", "07", "08")], axis=1)
    _, counts = np.unique(top, axis=0, return_counts=True)
    scalar = {name: float(q.value) for name, q in found.quantities.items() if q.value.ndim == 0}
    assert scalar["path_entropy"] == pytest.approx(entropy(counts))
    assert scalar["unique_paths"] == len(counts)
    labels = np.asarray(store.labels)
    number = top @ [16, 4, 1]
    assert scalar["path_ami"] == pytest.approx(adjusted_mutual_info_score(labels, number))
    ami = adjusted_mutual_info_score(top[:, 0], top[:, 1])
    assert found.quantities["transition_ami"].value[0] == pytest.approx(ami)
    joint = np.histogram2d(top[:, 0], top[:, 1], bins=[range(5), range(5)])[0] / len(top)
    np.testing.assert_allclose(found.quantities["transition"].value[0], joint)
    apart = found.quantities["path_entropy"].chance
    assert scalar["path_entropy"] < float(apart)  # class ties the layers together
    nothing = result("paths", "uniform", "image").quantities["path_entropy"]
    assert float(nothing.value) == pytest.approx(float(nothing.chance), abs=0.15)


def test_clusters_score_the_features_themselves(planted, result):
    store, found = planted("healthy"), result("clusters")
    features, labels = store.table("08", "pooled").astype(float), np.asarray(store.labels)
    expected = silhouette_score(features, labels, metric="cosine")
    assert value(found, "silhouette_class") == pytest.approx(expected, abs=0.05)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    near = np.argsort(2 * np.eye(len(unit)) - unit @ unit.T, axis=1)[:, :10]
    purity = (labels[near] == labels[:, None]).mean()
    assert value(found, "knn_purity") == pytest.approx(purity, abs=0.05)
    assert found.quantities["knn_purity"].chance[-1] == pytest.approx(14 / 119)


@pytest.mark.parametrize("name", [n for n in ANALYSES if n not in ("clusters", "probe")])
@pytest.mark.parametrize("router", ROUTERS)
def test_every_number_of_every_fault_is_finite_or_says_why(result, name, router):
    for kind in KINDS:
        if kind == "position" and router == "image":
            continue
        if name == "concentration" and router in ("topk", "image"):
            with pytest.raises(Refusal, match="soft"):
                result(name, kind, router)
            continue
        found = result(name, kind, router)
        assert found.summary.endswith(".")
        assert "nan" not in found.summary.lower().split()
        for key, quantity in found.quantities.items():
            if not np.isfinite(quantity.value).any():
                assert quantity.reason, (name, kind, router, key)


@pytest.mark.parametrize("name", list(ANALYSES))
def test_the_seed_decides_every_number(planted, name):
    store = planted("healthy", images=60, layers=2)
    first, second = (ANALYSES[name].run(store, **FEW) for _ in range(2))
    for key, quantity in first.quantities.items():
        np.testing.assert_array_equal(quantity.value, second.quantities[key].value)


@pytest.mark.parametrize("images", [1, 2, 8])
def test_few_images_end_in_words_not_in_errors(planted, images):
    store = planted("healthy", images=images, classes=max(1, images // 2), layers=2)
    for analysis in ANALYSES.values():
        found = analysis.run(store, **FEW)
        assert found.n <= images
        assert "nan" not in found.summary.lower().split()


def test_a_saved_result_is_read_back_without_computing(tmp_path):
    store = open_store(planted_store(tmp_path / "s.zarr", "healthy", images=40, layers=2))
    first, again, other = (analyze(store, ["load"], permutations=n)[0] for n in (9, 9, 19))
    assert (first.reused, again.reused, other.reused) == (False, True, False)
    share = open_store(store.path).result("load").quantities["share"].value
    np.testing.assert_array_equal(share, first.result.quantities["share"].value)
