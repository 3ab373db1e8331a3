from routelab.cli import consoles
from routelab.cli.consoles import Meter


def test_progress_is_lines_on_stderr_where_that_is_no_terminal(capsys, monkeypatch):
    clock = iter([0.0, 1.0, 2.0, 30.0, 31.0])
    monkeypatch.setattr(consoles.time, "monotonic", lambda: next(clock))
    with Meter("capture") as meter:
        for done in (10, 20, 300, 310):
            meter.update(done, 310)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "capture: 300 of 310, 10 images/s, 1 s left",
        "capture: 310 of 310, 10 images/s, 0 s left",
    ]


def test_notes_are_printed_as_they_are(capsys):
    with Meter("capture") as meter:
        meter.note("layer [06] is left out")
    assert capsys.readouterr().err == "layer [06] is left out\n"
