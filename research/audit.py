"""What planted secrets and fake users do to models of a synthetic log: `nextquery audit`.

Two audits of 20,000 sessions: adjacency and HRED `tiny` with K = 3 and guards, and as a control
adjacency with K = 1, which guards nothing. Both also poison the log for several K.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from research.commands import make, save
from research.tables import read, table

AUDITS = {3: ("--config", "tiny", "--min-users", "3", "--min-users", "10"), 1: ()}
"""Options of each audit, by the K of its data."""
FAKE_USERS = (1, 2, 3, 5, 10, 20)


def study(work: Path) -> None:
    """Audit both, and write docs/results/audit.json."""
    log = work / "log.tsv.gz"
    make(log, ["synth", str(log)])
    measured = {}
    for min_users, options in AUDITS.items():
        data, model = work / f"data-{min_users}", work / f"adjacency-{min_users}"
        make(data, ["prepare", str(log), "--out", str(data), "--min-users", str(min_users)])
        make(model, ["fit", str(data), "--kind", "adjacency", "--out", str(model)])
        measured[f"K = {min_users}"] = kept(_audit([str(model), str(data), *options]))
    save(
        "audit", {"date": f"{date.today()}", "command": "python -m research audit WORK", **measured}
    )


def kept(audit: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of an audit."""
    return {key: audit[key] for key in ("chance_bits", "secrets", "exposures", "poisoning")}


def _audit(arguments: Sequence[str]) -> Any:
    command = [sys.executable, "-m", "nextquery", "audit", *arguments, "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def exposures() -> str:
    """Bits of exposure of a secret by how many people typed it, and how often it is suggested."""
    document = read("audit")
    rows = [
        [title, *(_exposure(point) for point in audited["guarded"])]
        for key, suffix in (("K = 3", ""), ("K = 1", ", K = 1"))
        for audited in document[key]["exposures"]
        for title in [f"{_title(audited['kind'])}{suffix}"]
    ]
    users = [point["users"] for point in document["K = 3"]["exposures"][0]["guarded"]]
    return table(
        ["secret typed by", *(f"{count} user{'s' * (count != 1)}" for count in users)], rows
    )


def _exposure(point: dict[str, Any]) -> str:
    return f"{point['mean_bits']:.1f} ({point['shown']} of {point['secrets']})"


def poisoning() -> str:
    """How often a phrase of fake users is suggested, by their number and K."""
    rows = []
    for audited in read("audit")["K = 3"]["poisoning"]:
        shares = {point["fake_users"]: point["pushed"] / point["contexts"]
                  for point in audited["points"]}  # fmt: skip
        title = f"{_title(audited['kind'])}, K = {audited['min_users']}"
        rows.append([title, *(f"{shares[count]:.0%}" for count in FAKE_USERS)])
    return table(["fake users", *map(str, FAKE_USERS)], rows)


def _title(kind: str) -> str:
    return {"hred": "HRED"}.get(kind, kind)
