import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.evaluation.scenario_features import as_new_visitors, read_evaluation_data
from nextquery.evaluation.scenario_run import RankingSettings, run_scenario
from nextquery.evaluation.scenarios import Rules
from nextquery.evaluation.steps import show_steps
from nextquery.evaluation.systems import Systems
from nextquery.logs.data_folder import PreparedData
from nextquery.ranking.cases import user_fold
from nextquery.ranking.features import QueryVectors
from nextquery.records import ScoredQuery
from nextquery.suggesters.base import Scorer
from nextquery.suggesters.fit import fit_model
from nextquery.suggesters.qvmm import QVMM


@pytest.fixture(scope="module")
def qvmm(small_data: PreparedData) -> QVMM:
    return fit_model(QVMM, small_data)


def test_a_scenario_from_cases_to_results(
    small_data: PreparedData, qvmm: QVMM, shared_words: Scorer, tmp_path: Path
) -> None:
    vectors = QueryVectors(lambda texts: [[text.count(c) for c in "aeiou"] for text in texts])
    systems = Systems({"qvmm": qvmm}, {"mine": shared_words}, query_vectors=vectors)
    settings = RankingSettings(Rules(), seeds=1, ranker_cases=200)
    evaluation = read_evaluation_data(small_data)
    with show_steps() as steps:
        found = run_scenario("every_context", evaluation, systems, settings, tmp_path, steps)

    assert set(found.systems) == {
        "adj", "baseline", "baseline+mine:sum", "baseline+mine", "mine", "mine:per_word",
        "mine:lift", "qvmm", "baseline_semantic", "baseline_semantic+mine",
    }  # fmt: skip
    assert found.systems["adj"].cases == found.cases["test"]
    assert found.unseen_users is not None
    assert set(found.unseen_users.systems) == set(found.systems)
    with_meaning = {"baseline_semantic", "baseline_semantic+mine"}
    assert set(found.rankers) == {"baseline", "baseline+mine:sum", "baseline+mine"} | with_meaning
    assert "meaning_last" in found.rankers["baseline_semantic"].importances
    assert "mine:sum" not in found.rankers["baseline_semantic"].importances
    assert found.users == len({each.user for each in evaluation.sessions["test"]})
    gain = found.comparison("baseline_semantic+mine", "baseline_semantic")
    assert gain is not None
    assert gain.p_by_user is not None
    assert gain.p_by_user != gain.p
    suffixes = {".qrels", ".run", ".ndjson", ".parquet", ".txt"}
    assert {file.suffix for file in tmp_path.iterdir()} == suffixes
    assert len(list(tmp_path.glob("*.run"))) == len(found.systems)


@pytest.mark.slow
def test_a_run_of_others_stands_beside_the_systems(
    small_data: PreparedData, qvmm: QVMM, shared_words: Scorer, tmp_path: Path
) -> None:
    """A run that was written before is ranked as the system that it came from."""
    systems = Systems({"qvmm": qvmm}, {"mine": shared_words})
    evaluation = read_evaluation_data(small_data)
    settings = RankingSettings(Rules(), seeds=1, ranker_cases=200)
    with show_steps() as steps:
        first = run_scenario("every_context", evaluation, systems, settings, tmp_path, steps)
        run, other = tmp_path / "every_context.mine.run", tmp_path / "robust.run"
        theirs = {"theirs": (run,), "other": (other,)}
        some = {each.user for each in evaluation.sessions["test"][::3]}
        settings = RankingSettings(Rules(), 1, 200, theirs, {"some": some}, context_lengths=False)
        again = tmp_path / "again"
        found = run_scenario("every_context", evaluation, systems, settings, again, steps)
    assert found.systems["theirs"] == found.systems["mine"]
    assert "other" not in found.systems, "it is of another scenario"
    assert {(pair.a, pair.b) for pair in found.comparisons if pair.a == "theirs"} == {
        ("theirs", "adj"),
        ("theirs", "baseline"),
        ("theirs", "mine"),
    }
    assert first.by_context_length["mine"].cases > 0
    assert not found.by_context_length, "it was not asked for"
    apart = found.by_user_group["some"]
    assert apart.cases == sum(each.user in some for each in evaluation.sessions["test"])
    assert apart.cases < found.cases["test"]
    assert set(apart.systems) == set(found.systems)


def test_too_few_cases_end_before_anything_is_scored(
    small_data: PreparedData, shared_words: Scorer, tmp_path: Path
) -> None:
    settings = RankingSettings(Rules(min_followers=5000), seeds=1, ranker_cases=200)
    evaluation = read_evaluation_data(small_data)
    with show_steps() as steps:
        systems = Systems({}, {"mine": shared_words})
        found = run_scenario("next_query", evaluation, systems, settings, tmp_path, steps)

    assert found.too_few is not None
    assert found.too_few.startswith("0 training cases, 100 needed; 0 validation cases")
    assert not found.systems
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_new_visitors_are_ranked_by_rankers_of_other_users(
    small_data: PreparedData, qvmm: QVMM, shared_words: Scorer, tmp_path: Path
) -> None:
    """A model that gives away the answers of one half of the users must not help the other."""
    answers = {
        (session.queries[:-1], session.queries[-1])
        for split in ("training", "validation")
        for session in small_data.sessions(split)
        if user_fold(session.user, 2) == 0
    }

    class Insider:
        def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
            return [
                ScoredQuery(text, float((tuple(context), text) in answers), 2)
                for text in candidates
            ]

    evaluation = as_new_visitors(read_evaluation_data(small_data), small_data, tmp_path, 2)
    systems = Systems({"qvmm": qvmm}, {"insider": Insider()}).for_new_visitors()
    settings = RankingSettings(Rules(), seeds=1, ranker_cases=400)
    with show_steps() as steps:
        found = run_scenario("every_context", evaluation, systems, settings, tmp_path, steps)

    # taught by the insider's own half, and by the half that knows nothing: one half each
    assert found.rankers["baseline+insider:sum"].importances["insider:sum"] == 0
    assert found.cases["test"] > 50
    assert not found.by_context_length
    assert (tmp_path / "new_every_context.qrels").is_file()


@pytest.mark.slow
def test_runs_agree_with_the_results_and_can_feed_a_ranker(
    small_data: PreparedData, qvmm: QVMM, shared_words: Scorer, tmp_path: Path
) -> None:
    """A run of the learning cases, too, becomes a feature; one that lacks topics is refused."""
    systems = Systems({"qvmm": qvmm}, {"mine": shared_words})
    evaluation = read_evaluation_data(small_data)
    exports = frozenset({"seeds", "learning"})
    settings = RankingSettings(Rules(), 3, 150, context_lengths=False, exports=exports)
    with show_steps() as steps:
        first = run_scenario("every_context", evaluation, systems, settings, tmp_path, steps)
        quality = first.systems["baseline+mine"]
        assert mrr_of(tmp_path, "baseline+mine") == pytest.approx(quality.run_mrr)
        for seed, expected in enumerate(quality.mrr_by_seed, start=1):
            assert mrr_of(tmp_path, f"baseline+mine.seed-{seed}") == pytest.approx(expected)
        assert first.systems["adj"].run_mrr is None
        assert mrr_of(tmp_path, "adj") == pytest.approx(first.systems["adj"].mrr)

        theirs = tmp_path / "every_context.theirs.run"
        theirs.write_text(run_of_shared_words(tmp_path, shared_words))
        settings = RankingSettings(Rules(), 3, 150, {"theirs": (theirs,)}, context_lengths=False)
        found = run_scenario("every_context", evaluation, systems, settings, tmp_path, steps)

        lines = theirs.read_text().splitlines(keepends=True)
        theirs.write_text("".join(lines[: len(lines) // 2]))
        with pytest.raises(InputError, match=r"lacks \d+ of"):
            run_scenario("every_context", evaluation, systems, settings, tmp_path, steps)

    private = list(tmp_path.glob("*.cases.ndjson"))  # sessions of single visitors
    assert private
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in private)
    assert "0600" in (tmp_path / "README.txt").read_text()
    assert found.systems["theirs"].mrr == found.systems["mine"].mrr
    top = found.systems["baseline+theirs"], found.systems["baseline+mine:sum"]
    assert top[0].mrr_by_seed == top[1].mrr_by_seed
    pairs = {(pair.a, pair.b): pair for pair in found.comparisons}
    assert pairs["baseline+theirs", "baseline+mine:sum"].difference == 0.0
    assert pairs["theirs", "mine"].p_holm == 1.0
    assert pairs["baseline+theirs", "baseline"].difference_low_by_user is not None


def mrr_of(folder: Path, system: str) -> float:
    answers = {
        topic: document
        for topic, _, document, _ in map(
            str.split, (folder / "every_context.qrels").read_text().splitlines()
        )
    }
    ranks = [
        int(rank)
        for topic, _, document, rank, *_ in map(
            str.split, (folder / f"every_context.{system}.run").read_text().splitlines()
        )
        if answers[topic] == document
    ]
    return sum(1 / rank for rank in ranks) / len(ranks)


def run_of_shared_words(folder: Path, scorer: Scorer) -> str:
    lines = []
    for file in sorted(folder.glob("every_context.*cases.ndjson")):
        for topic in map(json.loads, file.read_text().splitlines()):
            for index, scored in enumerate(scorer.score(topic["context"], topic["candidates"])):
                lines.append(f"{topic['topic']} Q0 c{index} 1 {scored.log_likelihood} theirs\n")
    return "".join(lines)
