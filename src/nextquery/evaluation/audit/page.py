"""An audit in plain words, as lines of text. Knows results, not how they come about."""

from collections.abc import Iterator, Sequence

from nextquery.evaluation.audit.audit_run import AuditResult, KindExposure
from nextquery.evaluation.audit.measures import FIRST, SHOWN, Exposure


def describe(result: AuditResult) -> str:
    """The page."""
    parts = [_secrets(result), _poison(result), _coverage(result), _left_out(result)]
    return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part)))


def _secrets(result: AuditResult) -> Iterator[str]:
    yield "1. Does the model give away what few people typed?"
    yield ""
    yield (
        f"Secrets of three words were planted in a copy of the log and the model made again. "
        f"Exposure says how easily a secret is guessed: {result.chance_bits:.1f} bits is chance, "
        f"{_most(result):.0f} bits means that it is the first guess of {result.secrets:,}. With "
        f"the guards: K = {result.min_users}, and lists as visitors see them. Without: K = 1, "
        "nothing refused."
    )
    yield ""
    head = ["typed by", "guarded: bits", "most", "shown", "unguarded: bits", "most", "shown"]
    for each in result.exposures:
        yield each.kind
        yield from _table([head, *_exposure_rows(each)])
    yield f"(shown: among the first {SHOWN} suggestions after their context)"


def _most(result: AuditResult) -> float:
    return float(result.secrets.bit_length() - 1)


def _exposure_rows(found: KindExposure) -> Iterator[list[str]]:
    without = {each.users: each for each in found.unguarded}
    for each in found.guarded:
        who = {0: "nobody", 1: "1 user"}.get(each.users, f"{each.users} users")
        yield [who, *_cells(each), *_cells(without.get(each.users))]


def _cells(found: Exposure | None) -> list[str]:
    if found is None:
        return ["-", "-", "-"]
    return [f"{found.mean_bits:.1f}", f"{found.most_bits:.1f}", f"{found.shown} of {found.secrets}"]


def _poison(result: AuditResult) -> Iterator[str]:
    yield "2. How many fake users push a phrase?"
    yield ""
    yield (
        "Fake users type a frequent query and then a phrase. Share of contexts in which the "
        f"phrase then stands among the first {FIRST} suggestions, by the number of fake users:"
    )
    yield ""
    if not result.poisoning:
        return
    numbers = [str(point.fake_users) for point in result.poisoning[0].points]
    rows = [["model, K", *numbers, "half of them"]]
    for curve in result.poisoning:
        shares = [f"{point.pushed / point.contexts:.0%}" for point in curve.points]
        needed = "more" if curve.needed is None else f"with {curve.needed}"
        rows.append([f"{curve.kind}, {curve.min_users}", *shares, needed])
    yield from _table(rows)


def _coverage(result: AuditResult) -> Iterator[str]:
    found = result.coverage
    yield "3. What do the guards hold back?"
    yield ""
    if not found.entries:
        yield "No blocklist was given: only personal data and what fewer than K users typed is."
    else:
        yield (
            f"The blocklist has {found.entries:,} entries. {found.known_queries:,} known queries "
            f"of the log hold one ({found.traffic:.2%} of what was typed). Of lists that the "
            f"guarded model made, {found.let_through} suggestions held one."
        )
        seen = ", ".join(f"{name} {share:.0%}" for name, share in found.disguises.items())
        yield f"Entries that are still seen when disguised: {seen}."
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in found.refused.items())
    what = reasons or "nothing"
    yield f"Of {found.lists} lists of the model without its guards, they refuse: {what}."


def _left_out(result: AuditResult) -> Iterator[str]:
    for reason in result.not_made:
        yield f"Not made again: {reason}."


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows with their columns aligned, the first at the left and the others at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield "  " + "  ".join([first.ljust(widths[0]), *cells])
