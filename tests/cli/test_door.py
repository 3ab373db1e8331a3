import json
import math

import pytest

from routelab.cli import inspect as command
from routelab.cli import main
from routelab.cli.answer import Answer
from routelab.records import Level, Record


class Choice(Record):
    batch_size: int
    level: Level = "full"


@pytest.fixture
def answers(monkeypatch, capsys):
    """Make `inspect` do something else; exit code, stdout and stderr of a run."""

    def run(does, *words):
        monkeypatch.setattr(command, "run", does)
        code = main(["inspect", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_facts_with_json_and_text_without(answers):
    def does(as_json: bool = False) -> Answer:
        return Answer({"value": math.nan, "list": (1, math.inf)}, ("[bold]seen[/]",), 5)

    assert answers(does) == (5, "seen\n", "")
    code, stdout, _ = answers(does, "--as-json")
    assert code == 5
    assert json.loads(stdout) == {"value": None, "list": [1, None]}


def test_a_wrong_value_is_one_sentence_that_names_the_flag(answers):
    def does() -> Answer:
        return Answer(Choice(batch_size="many").model_dump())

    code, stdout, stderr = answers(does)
    assert (code, stdout) == (2, "")
    assert stderr.startswith("--batch-size 'many' is refused: ")
    assert len(stderr.splitlines()) == 1


def test_an_interruption_exits_with_130(answers):
    def does() -> Answer:
        raise KeyboardInterrupt

    code, stdout, stderr = answers(does)
    assert (code, stdout) == (130, "")
    assert "interrupted" in stderr


def test_a_missing_torch_names_the_extra(answers):
    def does() -> Answer:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    code, _, stderr = answers(does)
    assert code == 2
    assert "pip install 'routelab[torch]'" in stderr


def test_a_bug_keeps_its_traceback(answers):
    def does() -> Answer:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        answers(does)


def test_there_is_no_colour_where_stdout_is_no_terminal(answers):
    def does() -> Answer:
        return Answer({}, ("[red]plain[/]",))

    assert answers(does)[1] == "plain\n"
