"""What every suggester promises, whatever its kind, after saving and loading.

To put another kind under the contract, add a function to `MAKERS` that makes a model folder from
prepared data.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from tests.conftest import run_command
from tests.unit.feedback.made_up import publish_shortest_first

from nextquery import load
from nextquery.artifacts import publish
from nextquery.errors import InputError
from nextquery.guard.tables import write_tables
from nextquery.logs.data_folder import PreparedData
from nextquery.model.hred import HRED
from nextquery.model.settings import ModelConfig, TransformerConfig
from nextquery.model.transformer import Transformer
from nextquery.normalise import normalise_query
from nextquery.service.answering import build_service
from nextquery.service.app import build_app
from nextquery.service.settings import NamedModel, ServiceSettings
from nextquery.suggesters.base import Completer, Decoding, Guarded, Suggester
from nextquery.suggesters.blend import BlendSettings, Mixture, publish_blend
from nextquery.suggesters.diagnosis import LISTED, why
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.loading import COUNT_MODELS, MODEL_KINDS, count_model
from nextquery.suggesters.rescue import Rescue
from nextquery.text.vocabulary import Vocabulary


def _fit(kind: str) -> Callable[[PreparedData, Path], None]:
    return lambda data, folder: fit_model(count_model(kind), data).save(folder)


def _rescue(data: PreparedData, folder: Path) -> None:
    """A model of a site on which the queries asked about here find nothing."""
    failed = ("paris", "paris hotels", "rome map")
    fit_model(Rescue, data, hits=lambda query: query not in failed).save(folder)


def _hred(data: PreparedData, folder: Path) -> None:
    """An untrained model: the contract does not ask for good suggestions."""
    torch.manual_seed(1)
    vocabulary = Vocabulary(data.counts("words").select("word").collect()["word"].sort())
    config = ModelConfig(embedding_size=8, query_size=12, session_size=16, copy=True)
    model = HRED(config, vocabulary)
    assert model.copying is not None
    torch.nn.init.constant_(model.copying.gate.bias, -3.0)  # copy now and then, not always
    with publish(folder, "hred", model.manifest_entries()) as partial:
        model.write_files(partial)
        write_tables(data, partial)


def _transformer(data: PreparedData, folder: Path) -> None:
    torch.manual_seed(1)
    vocabulary = Vocabulary(data.counts("words").select("word").collect()["word"].sort())
    config = TransformerConfig(embedding_size=8, model_size=16, heads=2, copy=True)
    model = Transformer(config, vocabulary)
    assert model.copying is not None
    torch.nn.init.constant_(model.copying.gate.bias, -3.0)
    with publish(folder, "transformer", model.manifest_entries()) as partial:
        model.write_files(partial)
        write_tables(data, partial)


def _reranked(data: PreparedData, folder: Path) -> None:
    base = folder.with_name("base of reranked")
    fit_model(count_model("adjacency"), data).save(base)
    publish_shortest_first(base, folder)


def _blend(data: PreparedData, folder: Path) -> None:
    """The untrained model of above and two count models."""
    parts = [folder.with_name(f"{kind} of blend") for kind in ("hred", "qvmm", "shortcuts")]
    for part, make in zip(parts, (_hred, _fit("qvmm"), _fit("shortcuts")), strict=True):
        make(data, part)
    weights = np.array([[0.8, 0.1, 0.1], [0.4, 0.5, 0.1], [0.4, 0.1, 0.5], [0.2, 0.5, 0.3]])
    publish_blend(folder, parts[0], parts[1:], Mixture.of(weights), BlendSettings())


MAKERS: dict[str, Callable[[PreparedData, Path], None]] = {
    **{kind: _fit(kind) for kind in COUNT_MODELS},
    "rescue": _rescue,
    "hred": _hred,
    "transformer": _transformer,
    "blend": _blend,
    "reranked": _reranked,
}

TOPICS = ("paris", "rome", "東京", "café")
WORDS = ("hotels", "flights", "museum", "天気", "map", "weather")
CONTEXTS: dict[str, list[str]] = {
    "empty": [],
    "nothing but punctuation": ["?!", ""],
    "one": ["paris"],
    "several": ["paris", "paris hotels", "rome"],
    "unknown words": ["zyzzyva qwrtpl", "xkcd zzz"],
    "known word, unknown end": ["paris zyzzyva"],
    "unicode": ["東京 天気", "CAFÉ", "e\u0301 \u200b", "😀"],
    "long": ["paris hotels", "rome map", "東京"] * 34,
    "one very long query": ["paris " * 500],
}


@pytest.fixture(scope="module")
def data(prepared: Any, tiny_log: Any) -> PreparedData:
    rng = random.Random(7)
    queries = [*TOPICS, *(f"{topic} {word}" for topic in TOPICS for word in WORDS)]
    sessions = []
    clicks = []
    for number in range(300):
        user = f"user{number % 40}"
        topic = rng.choice(TOPICS)
        on_topic = [query for query in queries if query.startswith(topic)]
        typed = rng.sample(on_topic, rng.randint(2, 5))
        sessions.append((user, typed))
        # Cut so that a few queries share their page: one concept for "paris map" and "museum".
        clicks.append((user, typed[-1], f"https://example/{typed[-1][:7]}"))
    return prepared(tiny_log(sessions, clicks))  # type: ignore[no-any-return]


@pytest.fixture(scope="module", params=list(MAKERS))
def folder(
    request: pytest.FixtureRequest, data: PreparedData, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    target = tmp_path_factory.mktemp("models") / str(request.param)
    MAKERS[request.param](data, target)
    return target


def opened(folder: Path, blocklist: Path | None = None) -> Suggester:
    """The model; the gate on text quality is off, which hides all that an untrained one writes."""
    suggester = load(folder, blocklist=blocklist)
    if isinstance(suggester, Decoding):
        suggester.config = suggester.config.model_copy(update={"quality": False})
    return suggester


@pytest.fixture(scope="module")
def suggester(folder: Path) -> Suggester:
    return opened(folder)


def test_every_kind_is_under_the_contract() -> None:
    assert set(MAKERS) == set(MODEL_KINDS)


def test_it_follows_the_protocol(suggester: Suggester, folder: Path) -> None:
    assert isinstance(suggester, Suggester)
    assert isinstance(suggester, Guarded)
    assert suggester.kind == folder.name


def test_every_kind_completes(suggester: Suggester) -> None:
    assert isinstance(suggester, Completer)
    completions = suggester.complete(["paris map"], "Paris", 4)
    assert 0 < len(completions) <= 4
    assert all(item.text.startswith("paris") and item.text != "paris map" for item in completions)
    assert suggester.complete([], "paris", 0) == []
    with pytest.raises(InputError, match="-1"):
        suggester.complete([], "paris", -1)


@pytest.mark.parametrize("n", [0, 1, 5, 200])
def test_suggestions(suggester: Suggester, n: int) -> None:
    for context in CONTEXTS.values():
        suggestions = suggester.suggest(context, n)
        assert len(suggestions) <= n
        assert [(item.score, item.text) for item in suggestions] == sorted(
            ((item.score, item.text) for item in suggestions), key=lambda pair: (-pair[0], pair[1])
        )
        texts = [item.text for item in suggestions]
        assert len(set(texts)) == len(texts)
        assert not set(texts) & {normalise_query(query) for query in context}
        assert all(text == normalise_query(text) != "" for text in texts)
        assert all(isfinite(item.score) and item.source for item in suggestions)


def test_a_known_context_has_suggestions(suggester: Suggester) -> None:
    assert len(suggester.suggest(["paris", "paris hotels"], 3)) == 3


def test_fewer_suggestions_are_the_first_of_more(suggester: Suggester) -> None:
    for context in CONTEXTS.values():
        texts = [item.text for item in suggester.suggest(context, 3)]
        assert texts == [item.text for item in suggester.suggest(context, 8)][:3]


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_scores(suggester: Suggester, context: list[str]) -> None:
    candidates = [
        "Paris  Hotels",
        "rome",
        "zyzzyva",
        "東京 天気",
        "rome zyzzyva",
        "😀",
        "map " * 99,
    ]
    scored = suggester.score(context, candidates)
    assert [item.text for item in scored] == candidates
    assert all(isfinite(item.log_likelihood) and item.log_likelihood <= 0 for item in scored)
    assert [item.words for item in scored] == [3, 2, 2, 3, 3, 1, 100]
    # A model that copies can read the words of the session, whatever its vocabulary.
    copied = suggester.kind in ("hred", "transformer", "blend") and any(
        "zyzzyva" in query for query in context
    )
    unknown = () if copied else ("zyzzyva",)
    assert [item.unknown for item in scored][2:5] == [unknown, (), unknown]


def test_a_candidate_scores_the_same_alone_and_in_company(suggester: Suggester) -> None:
    context = ["paris", "paris hotels"]
    together = suggester.score(context, ["rome", "paris map", "zyzzyva"])
    alone = [suggester.score(context, [item.text])[0] for item in together]
    for one, other in zip(together, alone, strict=True):
        assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-4)


def test_no_candidates_no_scores(suggester: Suggester) -> None:
    assert suggester.score(["paris"], []) == []


def test_the_context_is_normalised(suggester: Suggester) -> None:
    assert suggester.suggest(["PARIS", " Paris -- Hotels!"]) == suggester.suggest(
        ["paris", "paris hotels"]
    )


def test_two_loads_agree(suggester: Suggester, folder: Path) -> None:
    """The last digit of a neural score may depend on what was computed in the same batch."""
    again = opened(folder)
    for context in CONTEXTS.values():
        lists = [model.suggest(context, 10) for model in (again, suggester)]
        texts = [[(item.text, item.source) for item in some] for some in lists]
        assert texts[0] == texts[1]
        scores = [[item.score for item in some] for some in lists]
        assert scores[0] == pytest.approx(scores[1])
        scored = [model.score(context, ["rome", "zyzzyva"]) for model in (again, suggester)]
        likelihoods = [[item.log_likelihood for item in some] for some in scored]
        assert likelihoods[0] == pytest.approx(likelihoods[1])


def test_a_copy_equals_the_original(suggester: Suggester, tmp_path: Path) -> None:
    suggester.save(tmp_path / "copy")
    copy = opened(tmp_path / "copy")
    assert copy.suggest(["paris"], 10) == suggester.suggest(["paris"], 10)


def test_a_negative_n_is_refused(suggester: Suggester) -> None:
    with pytest.raises(InputError, match="-1"):
        suggester.suggest(["paris"], -1)


def test_a_blocked_word_is_never_suggested_and_its_place_is_filled(
    folder: Path, tmp_path: Path
) -> None:
    free = opened(folder).suggest(["paris"], 3)
    banned = free[0].text
    (tmp_path / "blocked.txt").write_text(f"{banned.split()[-1]}\n", encoding="utf-8")
    guarded = opened(folder, tmp_path / "blocked.txt").suggest(["paris"], 3)
    assert len(guarded) == 3
    assert not any(banned.split()[-1] in item.text.split() for item in guarded)


@pytest.mark.parametrize("context", [["paris"], ["paris", "rome map"]], ids=str)
def test_a_diagnosis_agrees_with_the_list(suggester: Suggester, context: list[str]) -> None:
    shown = [item.text for item in suggester.suggest(context, LISTED)]
    assert shown
    for index, text in enumerate(shown[:5]):
        answer = why(suggester, text, context)
        assert (answer.can_be_suggested, answer.reason, answer.rank) == (True, None, index + 1)
    for text in ("zyzzyva", "", "paris zyzzyva", *context):
        answer = why(suggester, text, context)
        assert not answer.can_be_suggested
        assert answer.reason
        assert answer.rank is None


def test_a_diagnosis_counts_only_what_enough_users_typed(suggester: Suggester) -> None:
    known, unknown = why(suggester, "Paris Hotels"), why(suggester, "zyzzyva paris")
    assert known.enough_users
    assert known.count is not None
    assert known.count >= known.min_users
    assert (unknown.enough_users, unknown.count) == (False, None)
    assert [(w.word, w.enough_users, w.known) for w in unknown.words] == [
        ("zyzzyva", False, False),
        ("paris", True, True),
    ]


@pytest.fixture(scope="module")
def service(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    control = tmp_path_factory.mktemp("control")
    settings = ServiceSettings((NamedModel("model", folder),), control, budget_ms=60_000)
    with TestClient(build_app(build_service(settings))) as client:
        end = time.monotonic() + 900
        while client.get("/readyz").status_code != 200:
            assert time.monotonic() < end, "the model was not loaded"
            time.sleep(0.01)
        yield client


@pytest.mark.parametrize(
    "options", [{}, {"n": 3, "specificity": 0.6, "diversity": 0.4}], ids=["default", "adjusted"]
)
def test_the_command_and_the_service_give_the_same_list(
    folder: Path, service: TestClient, options: dict[str, float]
) -> None:
    words = [f"{'-' if name == 'n' else '--'}{name}={value}" for name, value in options.items()]
    words = [word.replace("-n=", "-n") for word in words]
    lengths = []
    for name, context in {
        **{name: CONTEXTS[name][-50:] for name in ("empty", "several", "unicode", "long")},
        "known": ["paris", "paris hotels"],
    }.items():
        command = run_command("suggest", folder, *context, "--json", *words)
        body = {"context": context[:-1], "query": context[-1] if context else "", **options}
        answer = service.post("/v1/suggest", json=body)
        assert answer.status_code == 200, answer.text
        printed, served = json.loads(command)["suggestions"], answer.json()["suggestions"]
        assert [item["text"] for item in printed] == [item["text"] for item in served], name
        assert [item["source"] for item in printed] == [item["source"] for item in served], name
        scores = [item["score"] for item in served]
        assert [item["score"] for item in printed] == pytest.approx(scores, abs=1e-4), name
        lengths.append(len(served))
    assert max(lengths) > 0
