"""Replay the test sessions of a data folder as visitors of a running service.

    python docs/examples/simulated_visitors.py data http://127.0.0.1:8000 feedback --visitors 600

Each visitor types a test session up to its last query, sees five suggestions, and clicks the one
that the session went on with, if it is there. At the end the feedback is dated back by one day,
because `nextquery feedback compare` counts only days that are over.
"""

import argparse
import json
import sys
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nextquery import PreparedData


def post(url: str, body: dict[str, Any]) -> Any:
    """Send JSON and read the answer."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def visit(url: str, visitor: str, queries: list[str]) -> bool:
    """One visitor sees one list; whether they clicked."""
    *context, last, following = queries
    asked = {"query": last, "context": context, "session_id": visitor, "n": 5}
    answer = post(f"{url}/v1/suggest", asked)
    texts = [suggestion["text"] for suggestion in answer["suggestions"]]
    event = {"client_id": visitor, "query_id": answer["query_id"], "query": last}
    post(f"{url}/v1/feedback", {"action": "shown", "suggestions": texts, **event})
    if following not in texts:
        return False
    position = texts.index(following) + 1
    clicked = {"action": "clicked", "suggestion": following, "position": position}
    post(f"{url}/v1/feedback", {**clicked, **event})
    return True


def date_back(folder: Path) -> None:
    """Move today's feedback to yesterday."""
    today = datetime.now(UTC).date()
    yesterday = (today - timedelta(days=1)).isoformat()
    for file in folder.glob(f"*{today}*.ndjson"):
        moved = file.read_text(encoding="utf-8").replace(today.isoformat(), yesterday)
        file.with_name(file.name.replace(today.isoformat(), yesterday)).write_text(moved)
        file.unlink()


def main() -> None:
    """Run the visitors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("url")
    parser.add_argument("feedback", type=Path)
    parser.add_argument("--visitors", type=int, default=600)
    options = parser.parse_args()

    shown = clicked = 0
    for session in PreparedData(options.data).sessions("test"):
        if shown == options.visitors:
            break
        shown += 1
        clicked += visit(options.url, f"visitor-{shown}", list(session.queries))
    date_back(options.feedback)
    sys.stdout.write(f"{shown} lists shown, {clicked} clicked\n")


if __name__ == "__main__":
    main()
