"""Completion of prefixes with one slip: MRR as it was and with similar beginnings.

    python -m research.completion_slips DATA MODEL [MODEL ...]

The next query of validation sessions is cut after half of its letters (at least four) and one
letter is exchanged, dropped, doubled or replaced, never the first. The control is the same prefix
without a slip. Prints one JSON line per model.
"""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from nextquery import load
from nextquery.logs.data_folder import PreparedData
from nextquery.suggesters.rewriting import QueryRewriter

CASES, LIST = 2000, 10
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def edited(prefix: str, draw: random.Random) -> str:
    """The prefix with one slip after its first letter."""
    position = draw.randrange(1, len(prefix))
    head, letter, rest = prefix[:position], prefix[position], prefix[position + 1 :]
    choices = [head + rest, head + draw.choice(LETTERS) + rest, head + letter + letter + rest]
    if rest:
        choices.append(head + rest[0] + letter + rest[1:])
    different = [text for text in choices if text != prefix and not text.endswith(" ")]
    return draw.choice(different or [prefix + "q"])


def cases(data: PreparedData, known: Any) -> list[tuple[tuple[str, ...], str, str, str]]:
    """Context, prefix, prefix with a slip, and the query, of queries that K users typed."""
    draw = random.Random(1)
    rows = []
    for session in data.sessions("validation"):
        for position in range(1, len(session.queries)):
            query = session.queries[position]
            cut = max(4, len(query) // 2)
            if query in known and len(query) > cut and query not in session.queries[:position]:
                prefix = query[:cut].rstrip()
                rows.append((session.queries[:position], prefix, edited(prefix, draw), query))
    draw.shuffle(rows)
    return rows[:CASES]


def main() -> None:
    """Measure every model."""
    data = PreparedData(Path(sys.argv[1]))
    for folder in sys.argv[2:]:
        model: Any = load(folder)
        rewriter = QueryRewriter(model.guard)
        sums: dict[str, float] = {}
        spent: list[float] = []
        rows = cases(data, model.guard.tables.queries)
        for context, prefix, slip, query in rows:
            lists: dict[str, Any] = {}
            for name, typed in (("slip", slip), ("no slip", prefix)):
                before = model.complete(context, typed, LIST)
                begin = time.process_time()
                after = rewriter.complete(context, typed, before, LIST).items
                spent.append((time.process_time() - begin) * 1000)
                lists |= {f"{name}, before": before, f"{name}, after": after}
            for name, suggestions in lists.items():
                texts = [item.text for item in suggestions]
                reciprocal = 1 / (texts.index(query) + 1) if query in texts else 0.0
                sums[name] = sums.get(name, 0.0) + reciprocal
        spent.sort()
        result = {name: round(total / len(rows), 4) for name, total in sums.items()}
        half, most = spent[len(spent) // 2], spent[len(spent) * 99 // 100]
        times = {"added_ms_p50": round(half, 3), "added_ms_p99": round(most, 3)}
        print(json.dumps({"model": folder, "cases": len(rows), "mrr": result, **times}))


if __name__ == "__main__":
    main()
