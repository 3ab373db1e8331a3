import itertools

from routelab.report.content import Details, Facts, Notices, Section, Table, Words
from routelab.report.render import block_html, escape, page

EVIL = '<img src=x onerror="alert(1)">'


def html(block):
    return block_html(block, itertools.count())


def test_every_kind_of_block_escapes_its_data():
    blocks = [
        Words(EVIL),
        Facts([(EVIL, EVIL)]),
        Table([EVIL], [[EVIL]], EVIL),
        Notices([(EVIL, EVIL)]),
        Details(EVIL, [(EVIL, EVIL)]),
    ]
    for block in blocks:
        assert "<img" not in html(block)
        assert escape(EVIL) in html(block)


def test_titles_and_numbers_at_the_top_are_data_too():
    text = page(EVIL, EVIL, [(EVIL, EVIL, EVIL)], {"key": Section(EVIL, [], EVIL)})
    assert "<img" not in text.partition("<script>")[0]


def test_the_contents_link_to_the_sections():
    text = page("t", "s", [], {"load": Section("Load", []), "probe": Section("Probes", [])})
    assert text.index('href="#load"') < text.index('href="#probe"')
    assert '<section id="load">' in text


def test_a_marked_row_is_set_off():
    table = Table(["check"], [["good"], ["bad"]], marked=frozenset({"bad"}))
    assert html(table).count('class="marked"') == 1
