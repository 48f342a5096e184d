"""The audit: planted secrets and fake users."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import make_untrained_hred

from nextquery import load
from nextquery.errors import InputError
from nextquery.evaluation.audit import (
    AuditResult,
    Coverage,
    KindExposure,
    audit,
    coverage,
    describe,
    guarded_copy,
)
from nextquery.evaluation.planting import (
    Exposure,
    Planted,
    PlantedSession,
    PoisonCurve,
    PoisonPoint,
    chance_bits,
    exposures,
    make_plan,
    poison_curve,
    write_planted,
)
from nextquery.evaluation.settings import AuditSettings, PlantingSettings
from nextquery.guard.guard import Guard
from nextquery.records import ScoredQuery, Suggestion
from nextquery.suggesters.adjacency import Adjacency
from nextquery.suggesters.fit import fit_model


class Teller:
    """Has one secret, and says it to whoever asks."""

    kind = "teller"

    def __init__(self, secret: str) -> None:
        self.secret = secret

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        return [ScoredQuery(text, 0.0 if text == self.secret else -9.0, 1) for text in candidates]

    def suggest(self, context: Sequence[str], n: int = 5) -> list[Suggestion]:
        return [Suggestion(self.secret, 0.0, "seen")][:n]

    def save(self, path: Path) -> None:
        raise NotImplementedError


DECOYS = [f"decoy {number}" for number in range(1023)]


def test_a_known_secret_has_all_bits_and_another_has_a_chance_share() -> None:
    canaries = [Planted("paris", "the secret", 2), Planted("rome", "not known", 0)]
    none, known = exposures(Teller("the secret"), canaries, DECOYS)
    assert (known.users, known.mean_bits, known.shown) == (2, 10.0, 1)
    # Equal to 1,023 others: the middle of them, which is one bit.
    assert (none.users, none.shown) == (0, 0)
    assert none.mean_bits == pytest.approx(1.0, abs=0.01)


def test_chance_is_the_mean_over_all_ranks() -> None:
    assert chance_bits(2) == pytest.approx(0.5)
    assert chance_bits(4) == pytest.approx((2 + 1 + (2 - 1.585) + 0) / 4, abs=1e-3)


def test_a_phrase_is_pushed_at_its_list_position() -> None:
    attacks = [Planted("paris", "pushed", 1), Planted("rome", "other", 1), Planted("rome", "p", 3)]
    curve = poison_curve(Teller("pushed"), "teller", 3, attacks)
    assert curve.points == (PoisonPoint(1, 2, 1), PoisonPoint(3, 1, 0))
    assert curve.needed == 1
    assert PoisonCurve("teller", 3, (PoisonPoint(5, 10, 4),)).needed is None


TYPED_SESSIONS = [
    (f"user{n % 5}", (f"paris number{n % 12}", f"hotel number{(n * 7) % 12} cheap"))
    for n in range(60)
]
FEW_PLANTED = PlantingSettings(
    canary_users=(0, 2), canaries=3, fake_users=(1, 4), contexts=2, decoys=31
)


@pytest.fixture
def data(prepared: Any, tiny_log: Any) -> Any:
    words = [(f"w{n}", tuple(f"w{k} w{k + 20}" for k in range(20))) for n in range(3)]
    return prepared(tiny_log([*TYPED_SESSIONS, *words]))


def test_every_text_is_new_and_used_once(data: Any) -> None:
    plan = make_plan(data, FEW_PLANTED)
    typed = {query for session in data.sessions("background") for query in session.queries}
    texts = [item.text for item in (*plan.canaries, *plan.attacks)] + list(plan.decoys)
    assert len(texts) == len(set(texts)) == 2 * 3 + 2 * 2 + 31
    assert not typed & set(texts)
    assert all(len(item.text.split()) == 3 for item in plan.canaries)
    contexts = [item.context for item in (*plan.canaries, *plan.attacks)]
    assert len(set(contexts)) == len(contexts)
    assert set(contexts) <= typed


def test_people_type_it_as_often_as_planned(data: Any) -> None:
    plan = make_plan(data, FEW_PLANTED)
    sessions = plan.sessions()
    assert len(sessions) == 3 * 2 + 2 * (1 + 4)
    assert len({session.user for session in sessions}) == len(sessions)
    assert list(Planted("a", "b", 0).sessions("nobody")) == []
    assert make_plan(data, FEW_PLANTED) == plan
    assert make_plan(data, PlantingSettings(**{**vars(FEW_PLANTED), "seed": 1})) != plan


def test_a_small_log_is_refused(prepared: Any, tiny_log: Any) -> None:
    with pytest.raises(InputError, match="too few to plant"):
        make_plan(prepared(tiny_log(TYPED_SESSIONS)), PlantingSettings())


SESSIONS = [(f"user{n}", ("red shoes", "red boots")) for n in range(4)]


def test_planted_sessions_are_counted(prepared: Any, tiny_log: Any, tmp_path: Path) -> None:
    data = prepared(tiny_log(SESSIONS, min_users=2))
    extra = [PlantedSession(f"fake{n}", ("red shoes", "blue hats")) for n in range(2)]
    made = write_planted(data, tmp_path / "planted", extra, min_users=2)
    results = dict(made.counts("queries").select("query", "count").collect().iter_rows())
    assert results == {"red shoes": 6, "red boots": 4, "blue hats": 2}
    assert made.min_users == 2
    rows = made.session_rows("background").collect()
    assert rows.schema == data.session_rows("background").collect().schema
    assert rows["session"].n_unique() == 6
    last = rows.filter(rows["query"] == "blue hats")
    assert last["clicks"].to_list() == [1, 1]
    texts = [item.text for item in fit_model(Adjacency, made).suggest(["red shoes"])]
    assert texts == ["red boots", "blue hats"]


def test_texts_of_fewer_than_k_users_are_not_counted(
    prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data = prepared(tiny_log(SESSIONS, min_users=3))
    extra = [PlantedSession(f"fake{n}", ("red shoes", "blue hats")) for n in range(2)]
    made = write_planted(data, tmp_path / "planted", extra, min_users=3)
    assert "blue hats" not in made.counts("queries").collect()["query"]
    assert "blue" not in made.words()
    assert made.session_rows("background").collect()["query"].to_list().count("blue hats") == 2


BLOCKED_SESSIONS = [
    *((f"a{n}", ("red shoes", "badword shop")) for n in range(3)),
    *((f"b{n}", ("red shoes", "red boots")) for n in range(6)),
]


@pytest.fixture
def model(prepared: Any, tiny_log: Any, tmp_path: Path) -> tuple[Any, Path]:
    data = prepared(tiny_log(BLOCKED_SESSIONS, min_users=2))
    fit_model(Adjacency, data).save(tmp_path / "model")
    return data, tmp_path / "model"


def covered(model: tuple[Any, Path], blocklist: Path, entries: str) -> Coverage:
    data, folder = model
    blocklist.write_text(entries, encoding="utf-8")
    lists = load(folder, blocklist=blocklist), load(folder, guarded=False)
    return coverage(data, *lists, Guard.open(folder, blocklist), blocklist)


def test_blocked_queries_and_suggestions_are_counted(
    model: tuple[Any, Path], tmp_path: Path
) -> None:
    results = covered(model, tmp_path / "blocklist.txt", "badword  # rude\nnasty phrase\n")
    assert (results.entries, results.known_queries, results.let_through) == (2, 1, 0)
    assert results.traffic == pytest.approx(3 / 18)
    assert results.refused == {"blocklist": 1}
    assert results.disguises["as written"] == results.disguises["leetspeak"] == 1.0


@pytest.mark.parametrize("entry", ["x", "\u8272", "\uac00", "\u00e9", "7", "\U0001d4b3", "a b"])
def test_short_entries_are_counted_like_others(
    entry: str, model: tuple[Any, Path], tmp_path: Path
) -> None:
    entries = f"{entry}\n\U0001f642  # nothing that could be blocked\n"
    results = covered(model, tmp_path / "blocklist.txt", entries)
    assert results.entries == 1
    assert results.disguises["as written"] == results.disguises["letters drawn out"] == 1.0


RESULT = AuditResult(
    model="models/adj",
    kind="adjacency",
    min_users=3,
    secrets=1024,
    chance_bits=1.44,
    exposures=(
        KindExposure(
            "adjacency",
            (Exposure(0, 10, 1.3, 4.1, 0), Exposure(1, 10, 1.5, 3.9, 0)),
            (Exposure(1, 10, 9.7, 10.0, 8),),
        ),
    ),
    poisoning=(
        PoisonCurve("adjacency", 3, (PoisonPoint(1, 10, 0), PoisonPoint(5, 10, 6))),
        PoisonCurve("adjacency", 10, (PoisonPoint(1, 10, 0), PoisonPoint(5, 10, 0))),
    ),
    coverage=Coverage(2, 7, 0.0123, 200, {"blocklist": 9}, 0, {"leetspeak": 0.5}),
    not_made=("hred: training takes long",),
)


def test_the_page_says_it_in_words() -> None:
    page = describe(RESULT)
    rows = [line.split() for line in page.splitlines()]
    assert ["nobody", "1.3", "4.1", "0", "of", "10", "-", "-", "-"] in rows
    assert ["1", "user", "1.5", "3.9", "0", "of", "10", "9.7", "10.0", "8", "of", "10"] in rows
    assert ["adjacency,", "3", "0%", "60%", "with", "5"] in rows
    assert ["adjacency,", "10", "0%", "0%", "more"] in rows
    assert "1.4 bits is chance, 10 bits means that it is the first guess of 1,024" in page
    assert "7 known queries of the log hold one (1.23% of what was typed)" in page
    assert "leetspeak 50%" in page
    assert page.endswith("Not made again: hred: training takes long.")


FEW = PlantingSettings(
    canary_users=(0, 1, 5), canaries=3, fake_users=(1, 5, 20), contexts=3, decoys=63
)
WORDS = [f"word{n}" for n in range(30)]
AUDITED_SESSIONS = [
    (f"user{n}-{k}", (f"{WORDS[n]} {WORDS[(n + k) % 30]}", f"{WORDS[n]} {WORDS[(n + 9) % 30]}"))
    for n in range(30)
    for k in (1, 1, 1, 2)
]


@pytest.fixture(scope="module")
def folders(
    prepared: Any, tiny_log: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Path]:
    users = [(f"{user}-{n}", queries) for n, (user, queries) in enumerate(AUDITED_SESSIONS)]
    data = prepared(tiny_log(users, min_users=3))
    model = tmp_path_factory.mktemp("audited") / "model"
    fit_model(Adjacency, data).save(model)
    return data, model


@pytest.fixture(scope="module")
def result(folders: tuple[Any, Path]) -> AuditResult:
    data, model = folders
    return audit(model, data, AuditSettings(min_users=(1, 3), planting=FEW))


def test_the_k_user_rule_keeps_secrets(result: AuditResult) -> None:
    [results] = result.exposures
    guarded = {item.users: item for item in results.guarded}
    bare = {item.users: item for item in results.unguarded}
    assert (guarded[1].shown, guarded[0].shown) == (0, 0)
    assert guarded[1].mean_bits < 3
    assert (bare[1].shown, bare[1].mean_bits) == (3, 6.0)
    assert guarded[5].shown == 3, "what K users typed may be shown"


def test_one_fake_user_pushes_where_k_is_one(result: AuditResult) -> None:
    needed = {curve.min_users: curve.needed for curve in result.poisoning}
    assert needed == {1: 1, 3: 5}


def test_other_kinds_are_made_if_asked_for(folders: tuple[Any, Path]) -> None:
    data, model = folders
    settings = AuditSettings(kinds=("popularity",), min_users=(3,), planting=FEW)
    results = audit(model, data, settings)
    assert [curve.kind for curve in results.poisoning] == ["adjacency", "popularity"]
    with pytest.raises(InputError, match="`kinds` nonsense"):
        audit(model, data, AuditSettings(kinds=("nonsense",), planting=FEW))


@pytest.mark.slow
def test_a_trained_model_is_not_trained_again_unasked(
    folders: tuple[Any, Path], tmp_path: Path
) -> None:
    data, _ = folders
    make_untrained_hred(data, tmp_path / "hred")
    results = audit(tmp_path / "hred", data, AuditSettings(min_users=(3,), planting=FEW))
    assert (results.exposures, results.poisoning) == ((), ())
    assert "give a `config`" in results.not_made[0]
    assert results.coverage.lists > 0
    assert "Not made again: hred" in describe(results)


def test_a_trained_model_is_guarded_by_another_k(
    folders: tuple[Any, Path], prepared: Any, tiny_log: Any, tmp_path: Path
) -> None:
    data, _ = folders
    make_untrained_hred(data, tmp_path / "hred")
    strict = prepared(tiny_log([("one", ("word1 word2", "word1 word3"))], min_users=1))
    copy = guarded_copy(tmp_path / "hred", strict, tmp_path / "copy")
    weights = "model.safetensors"
    assert (copy / weights).read_bytes() == (tmp_path / "hred" / weights).read_bytes()
    first, second = (Guard.open(path) for path in (tmp_path / "hred", copy))
    assert (first.tables.min_users, second.tables.min_users) == (3, 1)
