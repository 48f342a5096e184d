"""Files about single cases: TREC runs and qrels, the cases themselves, and a table of ranks.

Each case is a topic named by its session, its candidates are documents `c0`, `c1`, ... in the order
of the case. Tools break ties each in their own way, so the score written to a run is the position
from the end of the ranked list: equal scores cannot occur.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from nextquery.artifacts import write_text
from nextquery.artifacts.files import read_plain_text, replaced_file
from nextquery.errors import InputError
from nextquery.evaluation.comparison import SystemRanks
from nextquery.ranking.cases import CaseSet, Floats


def topics(cases: CaseSet) -> list[str]:
    """The name of each case: its session, with its length where a session has several cases."""
    repeated = Counter(case.session for case in cases)
    return [
        f"{case.session}-{case.length}" if repeated[case.session] > 1 else str(case.session)
        for case in cases
    ]


def write_qrels(path: Path, cases: CaseSet) -> None:
    """Which candidate of each case the user really typed."""
    pairs = zip(topics(cases), cases, strict=True)
    write_text(path, "".join(f"{topic} 0 c{case.target} 1\n" for topic, case in pairs))


def write_run(path: Path, cases: CaseSet, scores: Floats, system: str) -> None:
    """The candidates of each case, best first; ties go to the earlier candidate."""
    lines = []
    for topic, start, size in zip(topics(cases), cases.starts, cases.sizes, strict=True):
        order = np.argsort(-scores[start : start + size], kind="stable")
        lines += [
            f"{topic} Q0 c{candidate} {rank} {size - rank} {system}\n"
            for rank, candidate in enumerate(order, start=1)
        ]
    write_text(path, "".join(lines))


def write_cases(path: Path, cases: CaseSet) -> None:
    """What a run is made from: context and candidates of each topic, one object per line.

    Sessions of single visitors: only the owner may read the file.
    """
    with replaced_file(path, mode=0o600) as stream:
        for topic, case in zip(topics(cases), cases, strict=True):
            record = {"topic": topic, "context": case.context, "candidates": case.candidates}
            if case.earlier:
                record["earlier"] = case.earlier
            line = json.dumps(record, ensure_ascii=False) + "\n"
            stream.write(line.encode("utf-8", "backslashreplace"))


PRIVATE = """The files *.cases.ndjson and *.ranks.parquet are about single visitors: whole sessions.
Only their owner may read them (mode 0600). Do not publish them, and delete them when they are no
longer needed. Runs and qrels name cases by number and have no text.
"""


@dataclass(frozen=True)
class Run:
    """A run that somebody else made, by topic and candidate."""

    path: Path
    scores: Mapping[str, Mapping[int, float]]

    def covers(self, cases: CaseSet) -> bool:
        """Whether it has any of the topics."""
        return not self.scores.keys().isdisjoint(topics(cases))

    def of(self, cases: CaseSet) -> Floats:
        """The scores of all candidates, flat; candidates that it leaves out come last.

        A topic that it leaves out is an error: its case would be counted as a failure.
        """
        names = topics(cases)
        missing = [topic for topic in names if topic not in self.scores]
        if missing:
            raise InputError(
                f"{self.path}: lacks {len(missing):,} of {len(names):,} topics, such as "
                f"{missing[0]}; a run orders the candidates of every topic in the .cases.ndjson"
            )
        values = np.full(cases.rows, -np.inf)
        for topic, start, size in zip(names, cases.starts, cases.sizes, strict=True):
            for candidate, score in self.scores[topic].items():
                if candidate >= size:
                    raise InputError(f"{self.path}: topic {topic} has no candidate c{candidate}")
                values[start + candidate] = score
        return values


def read_run(path: Path) -> Run:
    """Read a TREC run. As in `trec_eval`, the score counts and not the rank."""
    try:
        lines = read_plain_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    scores: dict[str, dict[int, float]] = {}
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields:
            continue
        try:
            topic, _, document, _, score, _ = fields
            candidate, value = int(document.removeprefix("c")), float(score)
        except ValueError:
            raise InputError(
                f"{path}: line {number}: must be TOPIC Q0 cNUMBER RANK SCORE NAME"
            ) from None
        if not document.startswith("c") or candidate < 0:
            raise InputError(f"{path}: line {number}: topic {topic} has no candidate {document}")
        if np.isnan(value):
            raise InputError(f"{path}: line {number}: the score of {document} is not a number")
        if candidate in scores.setdefault(topic, {}):
            raise InputError(f"{path}: line {number}: topic {topic} has {document} twice")
        scores[topic][candidate] = value
    return Run(path, scores)


def write_ranks(path: Path, ranks: Mapping[str, SystemRanks]) -> None:
    """The reciprocal rank of every case by split, system and seed, as Parquet for its owner only.

    Seeds count from 1. A user is a hash: the same in all files, but not the one in the data folder.
    """
    tables = [
        pl.DataFrame(
            {
                "split": split,
                "case": topics(split_ranks.cases),
                "user": [user_hash(user) for user in split_ranks.cases.users],
                "length": [case.length for case in split_ranks.cases],
                "system": system.key,
                "seed": seed,
                "reciprocal_rank": 1.0 / row,
            }
        )
        for split, split_ranks in ranks.items()
        for system, rows in split_ranks.ranks.items()
        for seed, row in enumerate(rows, start=1)
    ]
    if tables:
        with replaced_file(path, mode=0o600, make_folders=True) as stream:
            pl.concat(tables).write_parquet(stream)


def user_hash(user: str) -> str:
    """A hash of a user that does not lead back to the data folder by itself.

    >>> user_hash("ann")
    '47f3eed73f72f943'
    """
    return hashlib.blake2b(user.encode(), digest_size=8, person=b"report").hexdigest()
