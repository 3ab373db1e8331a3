import plotly.graph_objects as go

from routelab.figures.caption import CHARACTERS, Caption, entitle, plain


def test_the_facts_name_n_chance_and_interval():
    caption = Caption(n=1234, of="tokens", chance="0.1", interval="95%")
    assert caption.facts == "n = 1,234 tokens · chance: 0.1 · interval: 95%"


def test_a_missing_chance_level_is_said():
    assert Caption(n=1).facts == "n = 1 images · no chance level"


def test_notes_are_added_and_empty_ones_left_out():
    assert Caption(n=1, notes=("a",)).noting("", "b").notes == ("a", "b")


def test_a_warning_is_shown_and_makes_room_for_itself():
    bare = entitle(go.Figure(), "t", Caption(n=1))
    warned = entitle(go.Figure(), "t", Caption(n=1, warnings=("flat by construction",)))
    assert "⚠ flat by construction" in warned.layout.title.subtitle.text
    assert warned.layout.margin.t > bare.layout.margin.t
    assert warned.layout.height > bare.layout.height


def test_long_text_is_wrapped_not_cut():
    text = "word " * 60
    figure = entitle(go.Figure(), "t", Caption(n=1, notes=(text,)))
    lines = figure.layout.title.subtitle.text.split("<br>")
    assert max(map(len, lines)) <= CHARACTERS
    assert " ".join(lines[1:]) == text.strip()


def test_names_are_data():
    assert plain("<b>&") == "&lt;b&gt;&amp;"
    figure = entitle(go.Figure(), "<i>cat</i>", Caption(n=1, notes=("<img>",)))
    assert "&lt;i&gt;" in figure.layout.title.text
    assert "<img>" not in figure.layout.title.subtitle.text
