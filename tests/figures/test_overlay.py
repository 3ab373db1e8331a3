import base64
import io

import numpy as np
from PIL import Image

from routelab.figures import (
    Caption,
    ExpertMap,
    WeightMap,
    expert_overlay,
    theme,
    weight_overlay,
)

PIXELS = np.full((8, 8, 3), 200, dtype=np.uint8)
GIVEN = {"title": "t", "caption": Caption(n=1), "prefix_names": ["class token", "register 1"]}


def layers_above(figure):
    """The RGBA grids laid over the panels."""
    grids = []
    for image in figure.layout.images:
        if image.layer == "above":
            data = base64.b64decode(image.source.partition(",")[2])
            grids.append(np.asarray(Image.open(io.BytesIO(data))))
    return grids


def test_each_patch_has_its_experts_colour_and_its_hardness_as_opacity():
    map_ = ExpertMap("06", [[0, 1], [2, -1]], [[1.0, 0.5], [0.25, 0.0]])
    (grid,) = layers_above(expert_overlay(PIXELS, [map_], **GIVEN))
    corners = grid[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert ["#" + bytes(c[:3]).hex().upper() for c in corners[:3]] == list(theme.PALETTE[:3])
    assert corners[0, 3] > corners[1, 3] > corners[2, 3] > corners[3, 3] == 0


def test_dropped_tokens_are_explained_where_there_are_any():
    for expert, said in (([[0, -1]], True), ([[0, 1]], False)):
        figure = expert_overlay(PIXELS, [ExpertMap("06", expert, [[1, 0]])], **GIVEN)
        assert ("no colour: dropped" in figure.layout.title.subtitle.text) is said


def test_prefix_tokens_stand_beside_the_image_never_inside():
    map_ = ExpertMap("06", [[0]], [[1.0]], [3, 4], [0.9, 0.8])
    figure = expert_overlay(PIXELS, [map_], **GIVEN)
    left = figure.layout.images[1].x
    assert len(figure.layout.shapes) == 2
    assert all(shape.x1 < left for shape in figure.layout.shapes)
    words = [word for trace in figure.data for word in trace.text or ()]
    assert words == ["class token: expert 3, 0.90", "register 1: expert 4, 0.80"]


def test_an_image_level_decision_has_no_map():
    figure = expert_overlay(PIXELS, [ExpertMap("06", None, None, [2], [0.7])], **GIVEN)
    assert layers_above(figure) == []
    assert len(figure.layout.shapes) == 1


def test_a_weight_panel_states_its_own_scale():
    maps = [WeightMap("slot 0", [[0.0, 0.5]]), WeightMap("slot 1", [[0.0, 0.02]])]
    figure = weight_overlay(PIXELS, maps, unit="weight", **GIVEN)
    titles = [note.text for note in figure.layout.annotations]
    assert titles == ["image", "slot 0 (max 0.5)", "slot 1 (max 0.02)"]
    first, second = layers_above(figure)
    np.testing.assert_array_equal(first, second)
