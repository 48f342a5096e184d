from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError
from nextquery.service.http.keys import KeyRing, RateLimit, new_key, read_keys


def test_a_new_key_opens_what_its_line_says(tmp_path: Path) -> None:
    made = new_key("shop")
    file = tmp_path / "keys"
    file.write_text(f"# customers\n{made.line}  # since May\n\n")
    keys = read_keys(file, "NOT_SET")
    assert keys.name(made.key) == "shop"
    assert keys.name(made.key + "x") is None
    assert made.key not in made.line


def test_the_command_makes_keys() -> None:
    answer = CliRunner().invoke(app, ["serve", "--new-key", "shop"])
    assert answer.exit_code == 0
    key, line = (row.split(":  ", 1)[-1].strip() for row in answer.stdout.splitlines())
    ring = KeyRing({line.split(":")[1]: "shop"})
    assert ring.name(key) == "shop"


def test_keys_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = new_key("a"), new_key("b")
    monkeypatch.setenv("SOME_KEYS", f"{first.line},{second.line}")
    keys = read_keys(None, "SOME_KEYS")
    assert (keys.name(first.key), keys.name(second.key)) == ("a", "b")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("shop:secret\n", "entry 1: write NAME:SHA256"), ("# nothing\n", "has no key")],
)
def test_a_bad_key_file_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(InputError, match=complaint):
        read_keys(file, "NOT_SET")


def test_a_missing_key_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_keys(tmp_path / "none", "NOT_SET")


def test_without_keys_the_ring_is_empty() -> None:
    assert len(KeyRing({})) == 0


def test_a_bucket_holds_two_seconds_and_refills() -> None:
    now = [100.0]
    limit = RateLimit(2.0, lambda: now[0])
    assert [limit.wait("a") for _ in range(4)] == [0, 0, 0, 0]
    assert limit.wait("a") == pytest.approx(0.5)
    assert limit.wait("b") == 0
    now[0] += 0.5
    assert limit.wait("a") == 0
    assert limit.wait("a") > 0


def test_a_batch_larger_than_the_bucket_waits_for_a_full_one() -> None:
    now = [0.0]
    limit = RateLimit(1.0, lambda: now[0])
    assert limit.wait("a", cost=10) == 0
    now[0] += 5
    assert limit.wait("a") > 0, "the batch left a debt"
    now[0] += 10
    assert limit.wait("a") == 0


def test_rate_0_sets_no_limit() -> None:
    limit = RateLimit(0.0)
    assert all(limit.wait("a") == 0 for _ in range(1000))
