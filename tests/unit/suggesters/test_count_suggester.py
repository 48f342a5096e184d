"""What holds for the fitting of every count model: order, parts and engine do not matter."""

import json
import random
import shutil
from math import exp
from pathlib import Path
from typing import Any

import pytest

from nextquery.errors import ArtifactError, InputError
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import COUNT_MODELS, count_model, load

TOPICS = ("paris", "rome", "oslo")
WORDS = ("hotels", "flights", "museum", "map")


def _log(tiny_log: Any, **changes: Any) -> Any:
    rng = random.Random(5)
    queries = [*TOPICS, *(f"{topic} {word}" for topic in TOPICS for word in WORDS)]
    sessions = [(f"user{n % 9}", rng.sample(queries, rng.randint(2, 5))) for n in range(80)]
    clicks = [(user, typed[-1], f"https://example/{typed[-1][:6]}") for user, typed in sessions]
    return tiny_log(sessions, clicks, min_users=2, days=[n // 8 for n in range(80)], **changes)


SETTINGS = {"popularity": {"half_life_days": 3}, "qvmm": {"depth": 2}, "cacb": {"depth": 2}}


def _hits(kind: str) -> dict[str, Any]:
    """For rescue: after "paris" nothing was found."""
    return {"hits": lambda query: query != "paris"} if kind == "rescue" else {}


def _files(
    kind: str, data: Any, target: Path, engine: str = "polars", **settings: int
) -> dict[str, str]:
    model_type = count_model(kind)
    chosen = model_type.settings_type(**SETTINGS.get(kind, {}) | settings)
    counting: dict[str, Any] = {"engine": engine, "spark_master": "local[1]", **_hits(kind)}
    fit_model(model_type, data, chosen, **counting).save(target)
    files: dict[str, str] = json.loads((target / "manifest.json").read_text())["files"]
    # The guard's key is made from the checksums of the data's files, which do differ.
    return {name: digest for name, digest in files.items() if not name.startswith("guard/")}


@pytest.mark.parametrize("kind", COUNT_MODELS)
@pytest.mark.parametrize("changes", [{"parts": 3}, {"reverse": True}], ids=["parts", "reversed"])
def test_parts_and_order_do_not_matter(
    kind: str, changes: dict[str, Any], prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    one = _files(kind, prepared(_log(tiny_log)), tmp_path / "one")
    other = _files(kind, prepared(_log(tiny_log, **changes)), tmp_path / "other")
    assert one == other


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_duckdb_makes_the_same_model(
    kind: str, prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data = prepared(_log(tiny_log))
    assert _files(kind, data, tmp_path / "one") == _files(kind, data, tmp_path / "other", "duckdb")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark_makes_the_same_model(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(_log(tiny_log))
    one = _files("cacb", data, tmp_path / "one", depth=1)
    assert one == _files("cacb", data, tmp_path / "other", "spark", depth=1)


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_only_queries_of_enough_users_are_suggested(
    kind: str, prepared: Any, tiny_log: Any
) -> None:
    usual = _log(tiny_log)
    sessions = [*usual.sessions, *[("eve", ["paris", "eves secret"])] * 99]
    clicks = [*usual.clicks, ("eve", "eves secret", "https://example/secret")]
    model, control = (
        fit_model(
            count_model(kind),
            prepared(tiny_log(sessions, clicks, min_users=users)),
            **_hits(kind),
        )
        for users in (2, 1)
    )
    assert "eves secret" not in {item.text for item in model.suggest(["paris"], 100)}
    assert "eves secret" in {item.text for item in control.suggest(["paris"], 100)}


@pytest.mark.parametrize("kind", COUNT_MODELS)
@pytest.mark.parametrize(
    "context", [[], ["paris"], ["rome map", "oslo"], ["paris hotels cheap"], ["zyzzyva"]]
)
def test_probabilities_sum_to_at_most_one(
    kind: str, context: list[str], prepared: Any, tiny_log: Any
) -> None:
    log = _log(tiny_log)
    model = fit_model(count_model(kind), prepared(log))
    known = sorted({query for _, queries in log.sessions for query in queries})
    # Every text of one word (the unknown word stands for all others) and some of two.
    others = [*WORDS, "zyzzyva", *(f"{word} {topic}" for word in WORDS for topic in TOPICS)]
    total = sum(exp(item.log_likelihood) for item in model.score(context, known + others))
    assert 0.5 < total <= 1


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_a_log_without_known_queries_is_refused(kind: str, prepared: Any, tiny_log: Any) -> None:
    data = prepared(tiny_log([("ann", ["paris", "rome"])], min_users=2))
    with pytest.raises(InputError, match="no query was typed by 2 users"):
        fit_model(count_model(kind), data)


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_no_file_of_a_model_can_carry_code(
    kind: str, prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    names = _files(kind, prepared(_log(tiny_log)), tmp_path / "model")
    assert {Path(name).suffix for name in names} <= {".npy", ".trie"}
    for name in names:
        if name.endswith(".npy"):
            assert b"'descr': '|O'" not in (tmp_path / "model" / name).read_bytes()[:128]


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_a_truncated_file_is_a_clear_error(
    kind: str, prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    names = _files(kind, prepared(_log(tiny_log)), tmp_path / "model")
    for name in names:
        file = tmp_path / "model" / name
        whole = file.read_bytes()
        file.write_bytes(whole[:9])
        with pytest.raises(ArtifactError, match=name):
            load(tmp_path / "model")
        file.write_bytes(whole)
    assert load(tmp_path / "model").suggest(["paris"])


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_specificity_ranks_by_what_the_session_adds(
    kind: str, prepared: Any, tiny_log: Any
) -> None:
    model = fit_model(count_model(kind), prepared(_log(tiny_log)))
    for context in (["paris"], ["rome map", "oslo"], []):
        found = model.suggest(context, 6, specificity=0.5)
        assert [item.score for item in found] == sorted((i.score for i in found), reverse=True)
        texts = [item.text for item in found]
        after, before = model.score(context, texts), model.score([], texts)
        for item, one, other in zip(found, after, before, strict=True):
            assert item.log_likelihood == pytest.approx(one.log_likelihood)
            assert item.log_prior == pytest.approx(other.log_likelihood)
            if kind in ("adjacency", "qvmm", "popularity"):
                value = one.log_likelihood - 0.5 * other.log_likelihood
                assert item.score == pytest.approx(value)


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_specificity_is_off_unless_asked_for(kind: str, prepared: Any, tiny_log: Any) -> None:
    model = fit_model(count_model(kind), prepared(_log(tiny_log)))
    likeliest = model.suggest(["paris"], 6, specificity=0.0)
    assert model.suggest(["paris"], 6) == likeliest
    assert all(item.log_prior is None for item in likeliest)


def test_specificity_lifts_what_follows_here_over_what_follows_everywhere(
    prepared: Any, tiny_log: Any
) -> None:
    sessions = [(f"u{n}", ["oslo", "google"]) for n in range(20)]
    sessions += [(f"v{n}", ["paris", "google"]) for n in range(4)]
    sessions += [(f"w{n}", ["paris", "louvre"]) for n in range(3)]
    model = fit_model(count_model("adjacency"), prepared(tiny_log(sessions, min_users=2)))
    first = [model.suggest(["paris"], 1, specificity=share)[0].text for share in (0.0, 0.5)]
    assert first == ["google", "louvre"]
