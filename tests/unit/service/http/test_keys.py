from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery.cli.main import app
from nextquery.errors import InputError
from nextquery.service.keys import KeyRing, RateLimit, new_key, read_keys


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
    assert limit.wait("a", cost=3) == 0
    now[0] += 0.9
    assert limit.wait("a") > 0, "the batch left a debt"
    now[0] += 1.1
    assert limit.wait("a") == 0


@pytest.mark.parametrize("rate", [0.01, 1.0, 7.0, 1000.0])
@pytest.mark.parametrize("cost", [1.0, 3.0, 100.0, 1e9])
@pytest.mark.parametrize("visitor", ["", "v"])
def test_no_debt_is_longer_than_a_second(rate: float, cost: float, visitor: str) -> None:
    now = [0.0]
    limit = RateLimit(rate, lambda: now[0])
    for _ in range(20):
        limit.wait("a", cost, visitor=visitor)
        # A second for the debt, and the time in which one comes in.
        assert limit.wait("a", 0.0, visitor=visitor) <= 1.0001
        now[0] += 1 / rate


def test_one_visitor_leaves_the_others_of_its_key_half_of_the_rate() -> None:
    """One visitor asks for as much as it can get, ten others once a second."""
    now = [0.0]
    limit = RateLimit(20.0, lambda: now[0])
    taken, refused = 0.0, 0
    for tick in range(6000):  # a minute
        now[0] = tick / 100
        if tick % 10 == 0:
            refused += limit.wait("site", visitor=f"visitor {tick // 10 % 10}") > 0
        for cost in (limit.most("greedy"), 5.0, 1.0):
            taken += 0 if limit.wait("site", cost, visitor="greedy") else cost
    assert refused == 0
    assert 550 < taken < 640, "half of 1,200, and what a bucket holds"


def test_a_visitor_beyond_its_share_costs_its_key_nothing() -> None:
    limit = RateLimit(10.0, lambda: 0.0)
    for _ in range(1000):
        limit.wait("site", visitor="greedy")
    assert [limit.wait("site", visitor=f"v{n}") for n in range(10)] == [0] * 10
    assert limit.wait("site", visitor="late") > 0
    assert limit.wait("another", visitor="greedy") == 0, "a visitor of another key is another"


def test_rate_0_sets_no_limit() -> None:
    limit = RateLimit(0.0)
    assert all(limit.wait("a") == 0 for _ in range(1000))


def test_what_was_paid_at_the_door_counts() -> None:
    now = [0.0]
    limit = RateLimit(1.0, lambda: now[0])  # a bucket of two
    assert limit.wait("a") == 0
    assert limit.wait("a", 1.0, paid=1.0) == 0
    assert limit.wait("a", 2.0, paid=1.0) == 0, "the whole bucket"
    assert limit.wait("a") > 0
    now[0] += 2
    assert limit.wait("a") == 0
    assert limit.wait("a", 3.0, paid=1.0) == 0, "passes with a full bucket, and leaves a debt"
    now[0] += 1.5
    assert limit.wait("a") > 0
    now[0] += 0.5
    assert limit.wait("a") == 0


@pytest.mark.parametrize("value", ["", " , ", "#"])
def test_a_variable_without_any_key_does_not_open_the_service(
    value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOME_KEYS", value)
    with pytest.raises(InputError, match="SOME_KEYS: is set but has no key"):
        read_keys(None, "SOME_KEYS")
    (tmp_path / "keys").write_text(new_key("shop").line)
    with pytest.raises(InputError, match="SOME_KEYS"):
        read_keys(tmp_path / "keys", "SOME_KEYS")


def test_a_key_file_that_everybody_may_write_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    file.write_text(new_key("shop").line)
    file.chmod(0o644)
    read_keys(file, "NOT_SET")
    assert not caplog.records
    file.chmod(0o666)
    read_keys(file, "NOT_SET")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_key_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read_keys(tmp_path / "keys", "NOT_SET")
