"""The guard inside the search: what is refused leaves its place to the next best."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import marisa_trie
import numpy as np
import pytest

from nextquery.guard.fingerprints import RareSet, pair_keys, text_keys
from nextquery.guard.guard import Guard, Reason
from nextquery.guard.tables import Tables
from nextquery.inference.output import ArrayPrediction
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.model.hred import HRED

from .conftest import ModelMaker, predictor_of

CONFIG = DecodeConfig(beam=10, max_words=4, fold=False, specificity=0.0)


def texts(predictor: Predictor, config: DecodeConfig = CONFIG, n: int = 10) -> list[str]:
    state = predictor.encoder.encode(["w1 w2", "w3 zebra"])
    return [item.text for item in predictor.suggest_many([state], n, config)[0]]


def blocked(path: Path, *entries: str) -> Path:
    path.write_text("\n".join(entries) + "\n", encoding="utf-8")
    return path


def test_blocked_words_and_phrases_never_come_out_and_the_list_stays_full(
    model: HRED, tmp_path: Path
) -> None:
    free = texts(predictor_of(model))
    longest = max(free, key=lambda text: len(text.split())).split()
    word, phrase = free[0].split()[0], " ".join(longest[-2:])
    guard = Guard(blocklist=blocked(tmp_path / "list.txt", word.upper(), phrase))
    shown = texts(predictor_of(model, guard))
    assert len(shown) == len(free) == 10
    assert not any(word in text.split() for text in shown)
    assert not any(f" {phrase} " in f" {text} " for text in shown)
    assert guard.blocked()[Reason.BLOCKLIST] > 0


@pytest.mark.parametrize("copying", [False, True])
def test_the_guarded_list_is_the_free_list_without_what_is_refused(
    make_model: ModelMaker, tmp_path: Path, copying: bool
) -> None:
    """With a beam that holds every query, blocking is no more than leaving out."""
    model = make_model(words=20, copy=copying)
    wide = DecodeConfig(beam=1000, max_words=2, fold=False)
    free = texts(predictor_of(model), wide, 1000)
    word = free[3].split()[0]
    guard = Guard(blocklist=blocked(tmp_path / "list.txt", word))
    shown = texts(predictor_of(model, guard), wide, 1000)
    expected = [text for text in free if word not in text.split()]
    assert len(free) > 400
    assert shown == expected


def test_a_changed_blocklist_acts_on_the_next_suggestion(model: HRED, tmp_path: Path) -> None:
    file = blocked(tmp_path / "list.txt", "nothing of this kind")
    guard = Guard(blocklist=file)
    predictor = predictor_of(model, guard)
    first = texts(predictor)
    blocked(file, first[0].split()[0])
    assert guard.reload()
    assert first[0].split()[0] not in " ".join(texts(predictor)).split()


@pytest.mark.parametrize("strategy", ["beam", "sample"])
def test_completions_and_samples_are_guarded_too(
    model: HRED, tmp_path: Path, strategy: str
) -> None:
    guard = Guard(blocklist=blocked(tmp_path / "list.txt", "w10", "w12", "w5 w2"))
    predictor = predictor_of(model, guard)
    state = predictor.encoder.encode(["w1 w2"])
    if strategy == "sample":
        config = DecodeConfig(strategy="sample", beam=60, max_words=3)
        result = predictor.suggest_many([state], 60, config)[0]
    else:
        result = [*predictor.complete(state, "w1", 40, CONFIG)]
        result += predictor.complete(state, "w5 ", 40, CONFIG)
    assert len(result) > 20
    for item in result:
        assert not {"w10", "w12"} & set(item.text.split())
        assert "w5 w2 " not in f"{item.text} "


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_where_all_is_refused_every_list_is_empty(model: HRED, tmp_path: Path, mode: str) -> None:
    words = [f"w{number}" for number in range(40)]
    guard = Guard(blocklist=blocked(tmp_path / "list.txt", *words))
    predictor = predictor_of(model, guard)
    config = CONFIG.model_copy(update={"mode": mode})
    state = predictor.encoder.encode(["w1 w2"])
    for prefix in ("w", "w1", "w2 w3", "w4 ", "w5 unheard", "unheard w"):
        assert predictor.complete(state, prefix, 5, config) == []
    assert predictor.suggest_many([state, state], 5, config) == [[], []]
    diverse = config.model_copy(update={"diversity": 0.5})
    assert predictor.suggest_many([state], 5, diverse) == [[]]
    sampling = config.model_copy(update={"strategy": "sample"})
    assert predictor.suggest_many([state, state], 5, sampling) == [[], []]


def test_one_context_without_an_allowed_word_leaves_the_others_alone(
    make_model: ModelMaker, tmp_path: Path
) -> None:
    words = [f"w{number}" for number in range(40)]
    guard = Guard(blocklist=blocked(tmp_path / "list.txt", *words))
    predictor = predictor_of(make_model(copy=True), guard)
    states = predictor.encoder.encode_many([["w1"], ["zebra fish"], ["w2 w3"]])
    empty, copied, last = predictor.suggest_many(states, 5, CONFIG)
    assert (empty, last) == ([], [])
    assert {item.text for item in copied} >= {"zebra", "fish"}


def test_a_hits_check_holds_in_the_search(model: HRED) -> None:
    guard = Guard(hits=lambda text: len(text.split()) == 2)
    shown = texts(predictor_of(model, guard), DecodeConfig(beam=40, max_words=2))
    assert shown
    assert {len(text.split()) for text in shown} == {2}


OWN = {("w1", "w2"), ("w3", "zebra")}
"""The pairs of the session that `texts` asks about."""


def seen_pairs(*pairs: tuple[str, str]) -> Guard:
    """A guard of a log in which these words stood side by side."""
    keys = [pair_keys(text_keys([a], b""), text_keys([b], b"")) for a, b in pairs]
    return Guard(Tables(common_pairs=np.sort(np.concatenate(keys))))


def pairs_of(text: str) -> set[tuple[str, str]]:
    return set(pairwise(text.split()))


@pytest.mark.parametrize("copying", [False, True])
def test_preferring_known_queries_leaves_out_words_that_never_stood_so(
    make_model: ModelMaker, copying: bool
) -> None:
    """With a beam that holds every query it is no more than leaving out."""
    model = make_model(words=20, copy=copying)
    seen = {(f"w{a}", f"w{b}") for a in range(20) for b in range(20) if (a + b) % 3 == 0}
    predictor = predictor_of(model, seen_pairs(*seen))
    wide = CONFIG.model_copy(update={"beam": 1000, "max_words": 2, "known": "free"})
    free = texts(predictor, wide, 1000)
    fine = [text for text in free if pairs_of(text) <= seen | OWN]
    assert 20 < len(fine) < len(free)
    shown = texts(predictor, wide.model_copy(update={"known": "prefer"}), len(fine))
    assert shown == fine


def test_a_list_that_seen_pairs_do_not_fill_continues_with_other_queries(model: HRED) -> None:
    predictor = predictor_of(model, seen_pairs(("w4", "w5"), ("w6", "w7")))
    config = CONFIG.model_copy(update={"beam": 60, "min_words": 2, "known": "prefer"})
    state = predictor.encoder.encode(["w1 w2", "w3 zebra"])
    scores = [item.score for item in predictor.suggest_many([state], 10, config)[0]]
    assert scores == sorted(scores, reverse=True)
    shown = texts(predictor, config)
    assert len(shown) == 10
    fine = [pairs_of(text) <= {("w4", "w5"), ("w6", "w7"), *OWN} for text in shown]
    assert any(fine)
    assert fine == sorted(fine, reverse=True)


def test_a_log_without_pairs_refuses_none(model: HRED) -> None:
    free, preferring = (
        texts(predictor_of(model, Guard()), CONFIG.model_copy(update={"known": known}))
        for known in ("free", "prefer")
    )
    assert preferring == free


def test_pairs_that_are_not_preferred_do_not_count_as_refusals(model: HRED) -> None:
    guard = seen_pairs(("w4", "w5"))
    texts(predictor_of(model, guard), CONFIG.model_copy(update={"known": "prefer"}))
    assert guard.blocked() == {}


def test_completions_keep_to_seen_pairs_while_there_are_enough(make_model: ModelMaker) -> None:
    model = make_model(words=20)
    predictor = predictor_of(model, seen_pairs(*((("w4", f"w{n}")) for n in range(6))))
    state = predictor.encoder.encode(["w1 w2"])
    config = CONFIG.model_copy(update={"known": "prefer", "max_words": 2})
    result = [item.text for item in predictor.complete(state, "w4 ", 8, config)]
    assert {text.split()[1] for text in result[:6]} == {f"w{n}" for n in range(6)}
    assert len(result) == 8


def test_few_seen_pairs_do_not_make_the_search_look_at_every_word(
    make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beam cannot be filled: what may follow is looked up, not all else refused."""
    looks: list[int] = []
    best = ArrayPrediction.best

    def counted(self: ArrayPrediction, rows: slice, before: Any, count: int) -> Any:
        looks.append(count)
        return best(self, rows, before, count)

    monkeypatch.setattr(ArrayPrediction, "best", counted)
    guard = seen_pairs(("w4", "w5"))
    predictor = predictor_of(make_model(words=3000), guard, compiled=False)
    result = texts(predictor, CONFIG.model_copy(update={"known": "prefer"}))
    assert len(result) == 10
    assert max(looks) == 2 * CONFIG.beam


@pytest.mark.parametrize("copying", [False, True])
def test_pairs_beyond_what_the_model_reads_are_not_the_visitors_own(
    make_model: ModelMaker, copying: bool, compiled: bool
) -> None:
    """Junk in front of a session once lifted the K-user rule for every pair in it."""
    model = make_model(words=20, copy=copying)
    rare = RareSet.build(pair_keys(*(text_keys([word], b"") for word in ("w1", "w2"))))
    words = marisa_trie.Trie([f"w{number}" for number in range(40)])
    guard = Guard(Tables(min_users=3, words=words, rare_pairs=rare))
    predictor = predictor_of(model, guard, compiled=compiled)
    wide = DecodeConfig(beam=1000, max_words=2, fold=False, known="free")

    def shown(*session: str) -> bool:
        state = predictor.encoder.encode(session)
        lists = predictor.suggest_many([state], 1000, wide)
        return "w2" in {b for item in lists[0] for a, b in pairs_of(item.text) if a == "w1"}

    limits = predictor.encoder.limits
    assert not shown("w3")
    assert shown("w4 w1 w2", "w3")
    assert shown("w4 w1 w2", *["w3", "w5"] * 9)
    assert not shown("w4 w1 w2", *["w3", "w5"] * limits.queries)
    assert not shown("w3 w5 " * 15 + "w1 w2", "w3")
    assert not shown("w4 w1 w2 w6 " * 4, "w3")
