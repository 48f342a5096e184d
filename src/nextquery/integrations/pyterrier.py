"""Query rewriting in PyTerrier pipelines: a query becomes its suggestions.

    pipeline = query_rewriter(nextquery.load("model"), n=3) >> bm25

As PyTerrier's own rewriters do, the query as it came is kept in `query_0` (earlier ones move to
`query_1` and so on), and results of an earlier stage are left out.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from nextquery.errors import InputError, MissingDependencyError
from nextquery.suggesters.base import Suggester

Mode = Literal["expand", "replace"]
_CONTEXT = "context"
_RESULTS = frozenset({"docid", "docno", "score", "rank", "text"})


def query_rewriter(model: Suggester, n: int = 3, mode: Mode = "expand") -> Any:
    """A PyTerrier transformer: see `rewrite`."""
    try:
        import pyterrier
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "pyterrier is not installed: pip install python-terrier"
        ) from None

    class Rewriter(pyterrier.Transformer):  # type: ignore[misc]
        """Suggestions of a nextquery model as rewritten queries."""

        def transform(self, topics: Any) -> Any:
            return rewrite(topics, model, n, mode)

    return Rewriter()


def rewrite(topics: Any, model: Suggester, n: int = 3, mode: Mode = "expand") -> Any:
    """Rewrite a data frame of topics (`qid`, `query`, perhaps `context`: earlier queries).

    `expand` adds the words of `n` suggestions to each query; `replace` puts the best suggestion in
    its place. A query without suggestions stays as it is.
    """
    if mode not in ("expand", "replace"):
        raise InputError(f"`mode` {mode}: not one of expand, replace")
    missing = [name for name in ("qid", "query") if name not in topics.columns]
    if missing:
        raise InputError(f"the topics have no column {missing[0]!r}")
    queries = topics.drop(columns=[name for name in topics.columns if name in _RESULTS])
    queries = queries.drop_duplicates("qid").reset_index(drop=True)
    rewritten = [_rewritten(row, model, n, mode) for row in queries.to_dict("records")]
    pushed = queries.rename(columns=dict(_pushed(list(queries.columns))))
    return pushed.assign(query=rewritten)


def _rewritten(row: Mapping[str, Any], model: Suggester, n: int, mode: Mode) -> str:
    earlier = row.get(_CONTEXT)
    context = [*(earlier if isinstance(earlier, list | tuple) else ()), str(row["query"])]
    texts = [suggestion.text for suggestion in model.suggest(context, n)]
    if mode == "replace":
        return texts[0] if texts else context[-1]
    words = dict.fromkeys(word for text in (context[-1], *texts) for word in text.split())
    return " ".join(words)


def _pushed(columns: list[str]) -> Iterator[tuple[str, str]]:
    """Names under which the query and earlier forms of it are kept."""
    yield "query", "query_0"
    for name in columns:
        stem, _, number = name.rpartition("_")
        if stem == "query" and number.isdigit():
            yield name, f"query_{int(number) + 1}"
