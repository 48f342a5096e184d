"""TREC run and qrels files, which the field's own tools read.

Knows case sets and scores. Each case is a topic named by its session, its candidates are documents
`c0`, `c1`, ... in the order of the case. Tools break ties each in their own way, so the score
written is the place from the end of the ranked list: equal scores cannot occur.
"""

import json
from pathlib import Path

import numpy as np

from nextquery.artifacts import write_text
from nextquery.artifacts.files import read_plain_text
from nextquery.errors import InputError
from nextquery.ranking.cases import CaseSet, Floats


def write_qrels(path: Path, cases: CaseSet) -> None:
    """Which candidate of each case the user really typed."""
    lines = [f"{case.session} 0 c{case.target} 1\n" for case in cases.cases]
    write_text(path, "".join(lines))


def write_run(path: Path, cases: CaseSet, scores: Floats, system: str) -> None:
    """The candidates of each case, best first; ties go to the earlier candidate."""
    lines = []
    for case, start, size in zip(cases.cases, cases.starts, cases.sizes, strict=True):
        order = np.argsort(-scores[start : start + size], kind="stable")
        lines += [
            f"{case.session} Q0 c{candidate} {rank} {size - rank} {system}\n"
            for rank, candidate in enumerate(order, start=1)
        ]
    write_text(path, "".join(lines))


def write_cases(path: Path, cases: CaseSet) -> None:
    """What a run is made from: context and candidates of each topic, one object per line."""
    topics = (
        {
            "topic": str(case.session),
            "context": case.context,
            "candidates": case.candidates,
            **({"earlier": case.earlier} if case.earlier else {}),
        }
        for case in cases.cases
    )
    write_text(path, "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in topics))


def read_run(path: Path, cases: CaseSet) -> Floats:
    """The scores that a run gives to the candidates; those that it leaves out come last.

    Topics of other cases are passed over. As in `trec_eval`, the score counts and not the rank.
    """
    topics = {str(case.session): number for number, case in enumerate(cases.cases)}
    scores = np.full(cases.rows, -np.inf)
    found = set()
    for number, line in enumerate(_lines(path), start=1):
        fields = line.split()
        if not fields:
            continue
        try:
            topic, _, document, _, score, _ = fields
            place, value = int(document.removeprefix("c")), float(score)
        except ValueError:
            raise InputError(f"{path}: line {number} is no line of a TREC run") from None
        case = topics.get(topic)
        if case is None:
            continue
        if not document.startswith("c") or not 0 <= place < cases.sizes[case] or np.isnan(value):
            raise InputError(f"{path}: line {number}: topic {topic} has no candidate {document}")
        scores[cases.starts[case] + place] = value
        found.add(topic)
    if not found:
        raise InputError(f"{path}: has none of the {len(topics):,} topics; see the .cases.ndjson")
    return scores


def _lines(path: Path) -> list[str]:
    try:
        return read_plain_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
