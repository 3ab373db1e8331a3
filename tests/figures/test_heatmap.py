import numpy as np

from routelab.figures import Caption, expert_atlas, lift_heatmap, score_heatmap, share_heatmap

CAPTION = Caption(n=4)
SHARE = np.array([[0.9, 0.1], [0.2, 0.8], [np.nan, np.nan]])
GIVEN = {"classes": ["cat", "dog", "none"], "title": "t", "caption": CAPTION}


def test_rows_stand_in_the_order_given():
    trace = share_heatmap(SHARE, order=[1, 0, 2], **GIVEN).data[0]
    assert list(trace.y) == ["dog", "cat", "none"]
    np.testing.assert_allclose(trace.z[:2], [[0.2, 0.8], [0.9, 0.1]], rtol=1e-6)


def test_an_order_is_said_to_come_from_the_other_half():
    ordered = share_heatmap(SHARE, order=[0, 1, 2], **GIVEN).layout.title.subtitle.text
    plain = share_heatmap(SHARE, **GIVEN).layout.title.subtitle.text
    assert "other half" in ordered
    assert "other half" not in plain


def test_an_empty_class_is_grey_and_noted():
    figure = share_heatmap(SHARE, **GIVEN)
    assert np.isnan(figure.data[0].z[2]).all()
    assert "grey: undefined" in figure.layout.title.subtitle.text


def test_shares_start_at_zero_and_lifts_are_centred_on_it():
    assert share_heatmap(SHARE, **GIVEN).data[0].zmin == 0
    for draw in (lift_heatmap, score_heatmap):
        trace = draw(SHARE, **GIVEN).data[0]
        assert trace.zmin == -trace.zmax


def test_extreme_lifts_do_not_wash_out_the_others():
    figure = lift_heatmap([[20.0, 0.5], [0.1, -0.4]], classes=["a", "b"], title="", caption=CAPTION)
    assert figure.data[0].zmax == 4
    assert "colours end at ±4" in figure.layout.title.subtitle.text


def test_the_atlas_colours_octaves_and_shows_the_ratio():
    trace = expert_atlas([[1.0, 2.0, 0.0]], layers=["06"], title="t", caption=CAPTION).data[0]
    np.testing.assert_allclose(trace.z, [[0, 1, -3]])
    np.testing.assert_allclose(trace.customdata, [[1, 2, 0]])


def test_layers_side_by_side_can_share_a_colour_scale():
    figure = share_heatmap(
        [[0.5, 0.5], [0.4, 0.6]],
        classes=["a", "b"],
        ceiling=0.9,
        title="flat layer",
        caption=Caption(n=4),
    )
    assert figure.data[0].zmax == 0.9
