from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup

from nextquery.cli import demo
from nextquery.cli.main import app

OUT = Path("somewhere")
STEPS = [
    *demo._preparation(OUT, 1000),
    *demo._models(OUT),
    *demo._suggestions(OUT),
    demo._experiment(OUT),
    demo._service(OUT, 0),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.title)
def test_every_step_is_a_command_that_exists(step: demo.Step) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    name, *arguments = step.arguments
    with group.commands[name].make_context(name, arguments) as context:
        assert context.params


def test_a_step_that_fails_ends_the_demo() -> None:
    with pytest.raises(typer.Exit) as stopped:
        demo._run(demo.Step("a folder that is not there", ("inspect", "no-such-folder")), "1")
    assert stopped.value.exit_code == 2
