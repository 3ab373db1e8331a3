import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routelab.figures import Caption, expert_flow

CAPTION = Caption(n=9)


def draw(joint, **options):
    layers = [str(place) for place in range(len(joint) + 1)]
    return expert_flow(joint, layers=layers, title="t", caption=CAPTION, **options).data[0]


def test_small_experts_are_drawn_as_other():
    trace = draw([[[0.5, 0.3], [0.1, 0.1]]], threshold=0.3)
    assert list(trace.node.label) == ["0", "other", "0", "1"]
    np.testing.assert_allclose(sorted(trace.link.value), [0.1, 0.1, 0.3, 0.5])


def test_an_expert_keeps_its_colour_over_layers():
    trace = draw([[[0.5, 0.0], [0.0, 0.5]]])
    colours = dict(zip(trace.node.label, trace.node.color, strict=True))
    assert [c for n, c in zip(trace.node.label, trace.node.color, strict=True) if n == "1"] == [
        colours["1"]
    ] * 2


def test_a_node_that_nothing_flows_through_is_left_out():
    """Plotly would shift the positions of all nodes after it."""
    first, second = np.diag([0.5, 0.5, 0.0]), np.diag([0.3, 0.7, 0.0])
    trace = draw([first, second])
    assert list(trace.node.label) == ["0", "1"] * 3
    assert {*trace.link.source, *trace.link.target} == set(range(6))
    places = dict(zip(range(6), trace.node.x, strict=True))
    assert [round(places[end], 1) for end in trace.link.source] == [0, 0, 0.5, 0.5]
    assert [round(places[end], 1) for end in trace.link.target] == [0.5, 0.5, 1, 1]


def test_one_layer_says_that_nothing_flows():
    figure = expert_flow([], layers=["06"], title="t", caption=CAPTION)
    assert not figure.data
    assert "nothing flows" in figure.layout.title.subtitle.text


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.floats(0, 0.5), st.integers(0, 2**32 - 1))
def test_nothing_flows_away(experts, most, threshold, seed):
    joint = np.random.default_rng(seed).dirichlet(np.ones(experts**2)).reshape(experts, experts)
    trace = draw([joint], threshold=threshold, most=most)
    assert sum(trace.link.value) == pytest.approx(1)
