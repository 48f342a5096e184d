"""What own earlier queries are worth to visitors, on sessions that no choice was made on.

The rule that decides what is shown was developed with the last requests of 3,000 sessions of each
split (seed 1). This study leaves these sessions out and measures up to 2,500 others of each split
once, with what `nextquery fit --kind returning` gives, which depends on training and validation
alone.
"""

import json
import platform
from datetime import date
from pathlib import Path

from nextquery.evaluation.lists import suggest_all
from nextquery.evaluation.returning import (
    ReturningResult,
    VisitorResult,
    frequent_queries,
    measure,
)
from nextquery.evaluation.steps import show_steps, to_json
from nextquery.logs.data_folder import UNSEEN_USERS, PreparedData
from nextquery.ranking.cases import BackgroundCounts
from nextquery.suggesters.loading import load
from nextquery.suggesters.returning import Returning
from nextquery.suggesters.returning_fit import draw_sessions, requests_of_sessions

RESULT = Path(__file__).parents[1] / "docs" / "results" / "returning.json"
DEVELOPMENT_SESSIONS = 3000
DEVELOPMENT_SEED = 1
FRESH_SESSIONS = 2500
EVERY_SESSION = 10**9


def study(returning: Path, data_folder: Path, models: dict[str, Path]) -> None:
    """Measure a model of returning visitors next to the lists of models; write the results."""
    data = PreparedData(data_folder)
    model = Returning.load(returning)
    frequent = frequent_queries(BackgroundCounts.read(data))
    suggesters = {name: load(folder) for name, folder in models.items()}
    visitors: dict[str, VisitorResult] = {}
    for split in ("test", UNSEEN_USERS):
        looked_at = draw_sessions(data, split, DEVELOPMENT_SESSIONS, DEVELOPMENT_SEED)
        numbers = draw_sessions(data, split, EVERY_SESSION, 0).sort()
        unseen = numbers.filter(~numbers.is_in(looked_at.implode()))
        fresh = unseen.sample(min(FRESH_SESSIONS, len(unseen)), shuffle=True, seed=2)
        requests = requests_of_sessions(data, split, fresh, last_only=True)
        developed_with = requests_of_sessions(data, split, looked_at, last_only=True)
        users = {request.user for request in developed_with}
        contexts = [request.context for request in requests]
        with show_steps() as steps:
            lists = {
                name: suggest_all(suggester, contexts, steps.track(f"{split}, {name}"))
                for name, suggester in suggesters.items()
            }
        groups = {
            "all": range(len(requests)),
            "returning": [n for n, request in enumerate(requests) if request.returning],
            "first-time": [n for n, request in enumerate(requests) if not request.returning],
            "users never looked at": [
                n for n, request in enumerate(requests) if request.user not in users
            ],
        }
        for name, chosen in groups.items():
            if not chosen:
                continue
            of_group = {key: [rows[n] for n in chosen] for key, rows in lists.items()}
            some = [requests[n] for n in chosen]
            visitors[f"{split}: {name}"] = measure(model, some, of_group, frequent)
    document = {
        "date": date.today().isoformat(),
        "command": "python -m research returning RETURNING DATA NAME=MODEL...",
        "machine": platform.machine(),
        "data": data.artifact.manifest["counts"]["sessions"],
        "learners": {
            "regression": {
                "threshold": model.threshold,
                "further": model.further,
                "validation": model.validation,
                "settings": model.settings.model_dump(mode="json"),
                "result": to_json(ReturningResult(visitors, model.threshold)),
            }
        },
    }
    RESULT.write_text(json.dumps(document, indent=1) + "\n")
