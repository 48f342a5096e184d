"""The guard inside the search: what is refused leaves its place to the next best."""

from pathlib import Path

import pytest

from nextquery.guard.guard import Guard, Reason
from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig
from nextquery.model.hred import HRED

from .conftest import ModelMaker, predictor_of

CONFIG = DecodeConfig(beam=10, max_words=4, fold=False, specificity=0.0)


def texts(predictor: Predictor, config: DecodeConfig = CONFIG, n: int = 10) -> list[str]:
    state = predictor.encoder.encode(["w1 w2", "w3 zebra"])
    return [each.text for each in predictor.suggest_many([state], n, config)[0]]


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
        found = predictor.suggest_many([state], 60, config)[0]
    else:
        found = [*predictor.complete(state, "w1", 40, CONFIG)]
        found += predictor.complete(state, "w5 ", 40, CONFIG)
    assert len(found) > 20
    for each in found:
        assert not {"w10", "w12"} & set(each.text.split())
        assert "w5 w2 " not in f"{each.text} "


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
    assert {each.text for each in copied} >= {"zebra", "fish"}


def test_a_hits_check_holds_in_the_search(model: HRED) -> None:
    guard = Guard(hits=lambda text: len(text.split()) == 2)
    shown = texts(predictor_of(model, guard), DecodeConfig(beam=40, max_words=2))
    assert shown
    assert {len(text.split()) for text in shown} == {2}
