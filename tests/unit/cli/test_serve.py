"""How `nextquery serve` turns options into settings; whole services run in integration."""

from pathlib import Path

import pytest
from tests.conftest import run_cli, run_command

from nextquery.artifacts import publish
from nextquery.cli.serve import served_models as models_of
from nextquery.errors import InputError
from nextquery.service import run
from nextquery.service.keys import read_keys
from nextquery.service.settings import NamedModel, ServiceSettings


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServiceSettings]:
    """The settings that would be served."""
    result: list[ServiceSettings] = []
    monkeypatch.setattr(run, "serve", result.append)
    return result


def test_options_become_settings(
    served: list[ServiceSettings], served_models: dict[str, Path], tmp_path: Path
) -> None:
    """One of each type; `test_options.py` tests how options are made of settings."""
    one, two = served_models["adjacency"], served_models["popularity"]
    words = f"--compare other={two} --fallback {two} --port 0 --rate 7 --public metrics".split()
    words += f"--trusted-proxy 10.0.0.0/8 --kill-switch {tmp_path / 'off'} --cache-size 12".split()
    run_cli("serve", one, *words)
    [settings] = served
    assert settings == ServiceSettings(
        (NamedModel("adjacency", one), NamedModel("other", two)),
        settings.control,
        fallback=two,
        port=0,
        rate_per_second=7.0,
        public=frozenset({"metrics"}),
        trusted_proxies=("10.0.0.0/8",),
        kill_switch=tmp_path / "off",
    )
    assert not settings.control.exists()  # it goes with the command


@pytest.mark.parametrize(
    ("options", "score"), [([], False), (["--no-score"], False), (["--score"], True)]
)
def test_scores_are_given_only_on_request(
    served: list[ServiceSettings], served_models: dict[str, Path], options: list[str], score: bool
) -> None:
    run_cli("serve", served_models["adjacency"], *options)
    assert served[0].score is score


def test_a_new_key_is_printed_with_the_line_that_knows_it(tmp_path: Path) -> None:
    printed = run_command("serve", "--new-key", "shop")
    key, line = (text.split(":  ")[1] for text in printed.strip().split("\n"))
    assert line.startswith("shop")
    assert key not in line
    (tmp_path / "keys").write_text(line + "\n")
    assert read_keys(tmp_path / "keys", "NEXTQUERY_NO_KEYS").name(key) == "shop"


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        with publish(tmp_path / name, "adjacency", {}):
            pass
    return tmp_path


def test_models_of_a_trial_are_served(folders: Path) -> None:
    a, b = folders / "a", folders / "b"
    served, interleaved, _ = models_of(None, "", [], [f"A={a}", f"B={b}"], "")
    assert [(model.name, model.path) for model in served] == [("A", a), ("B", b)]
    assert interleaved == ("A", "B")


def test_a_trial_may_name_what_is_served_already(folders: Path) -> None:
    a, b = folders / "a", folders / "b"
    served, interleaved, shadow = models_of(a, "", [f"B={b}"], ["adjacency", "B"], "B")
    assert [model.name for model in served] == ["adjacency", "B"]
    assert (interleaved, shadow) == (("adjacency", "B"), "B")


@pytest.mark.parametrize(
    ("compare", "interleave", "shadow", "message"),
    [
        (["x"], [], "", "write NAME=MODEL"),
        ([], ["C", "adjacency"], "", "no model has this name"),
        ([], ["adjacency={b}"], "", "another model has this name"),
        ([], [], "=x", "write NAME or NAME=MODEL"),
    ],
)
def test_what_cannot_be_served_is_refused(
    folders: Path, compare: list[str], interleave: list[str], shadow: str, message: str
) -> None:
    models = [entry.format(b=folders / "b") for entry in interleave]
    with pytest.raises(InputError, match=message):
        models_of(folders / "a", "", compare, models, shadow)


def test_something_must_be_shown(folders: Path) -> None:
    with pytest.raises(InputError, match="MODEL"):
        models_of(None, "", [], [], f"B={folders / 'b'}")
