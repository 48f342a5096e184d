"""Request and response schemas, and errors as problem documents (RFC 9457)."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException

from nextquery.normalise import normalise_query
from nextquery.records import Known
from nextquery.service.settings import (
    MAX_BATCH_REQUESTS,
    MAX_CANDIDATES,
    MAX_CONTEXT_QUERIES,
    MAX_COUNT,
    MAX_HISTORY_BYTES,
    MAX_PREFIX_CHARACTERS,
    MAX_QUERY_CHARACTERS,
    MAX_SESSION_BYTES,
    MAX_SUGGESTIONS,
    MAX_WORD_CHARACTERS,
    ServiceSettings,
    text_bytes,
)
from nextquery.suggesters.base import SuggestOptions
from nextquery.suggesters.returning import MAX_HISTORY, PastQuery, merge_history

MEDIA_TYPE = "application/problem+json"
FAILED = "Look for the request id in the log."

TITLES = {
    400: "The body is not JSON",
    401: "A valid API key is needed",
    403: "This key may not do that",
    404: "There is nothing here",
    405: "This method is not allowed here",
    408: "The body took too long to arrive",
    409: "That was refused and nothing changed",
    413: "The body is too large",
    422: "The request is not valid",
    429: "Too many requests",
    431: "The headers are too long",
    500: "The service failed",
    501: "This model cannot do that",
    503: "The service is too busy or not ready",
}


class ProblemError(Exception):
    """An answer other than the one asked for."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


class BusyError(ProblemError):
    """503 with the time after which a client may try again; `reason` is a word for the metrics."""

    def __init__(self, detail: str, retry_after: float, reason: str = "") -> None:
        super().__init__(503, detail, {"Retry-After": str(max(1, round(retry_after)))})
        self.reason = reason


def invalid_key(header: str) -> ProblemError:
    """The refusal of a request without a valid key."""
    detail = f"Send a valid key in the header {header}."
    return ProblemError(401, detail, {"WWW-Authenticate": "ApiKey"})


def rate_exceeded(wait: float) -> ProblemError:
    """The refusal of a request beyond its sender's rate."""
    headers = {"Retry-After": str(max(1, round(wait)))}
    return ProblemError(429, "Rate limit exceeded.", headers)


def problem_response(problem: ProblemError, request_id: str) -> JSONResponse:
    """A problem as an HTTP response."""
    body = {
        "title": TITLES.get(problem.status, "The request failed"),
        "status": problem.status,
        "detail": problem.detail,
        "request_id": request_id,
    }
    return JSONResponse(body, problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every expected error as a problem."""
    for kind in (ProblemError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _on_error)


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    problem = ProblemError(500, FAILED)
    if isinstance(error, ProblemError):
        problem = error
    elif isinstance(error, RequestValidationError):
        first = error.errors()[0]
        # Names of fields only: a position inside the body, never the value found there.
        field = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
        problem = ProblemError(422, f"{field}: {first['msg']}")
    elif isinstance(error, HTTPException):
        detail = TITLES.get(error.status_code, str(error.detail))
        problem = ProblemError(error.status_code, detail, error.headers)
    return problem_response(problem, str(request.scope.get("request_id", "")))


Query = Annotated[str, Field(max_length=MAX_QUERY_CHARACTERS)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.~-]{1,128}$")]
Context = Annotated[
    list[Query],
    Field(
        max_length=MAX_CONTEXT_QUERIES,
        description="The earlier queries of the session, oldest first. With a `session_id` that "
        "the server has, its own record is used instead.",
    ),
]
ModelName = Annotated[
    str | None, Field(description="One of the served models; the first one if left out.")
]


def _whole(value: object) -> object:
    """JSON has one kind of number: 5.0 is an integer there."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[
    int,
    Field(ge=1, le=MAX_SUGGESTIONS, description="How many at most."),
    BeforeValidator(_whole),
]
ListLength: Any = Field(
    default=None, description="How many at most; left out: as the service has it."
)
Results = Annotated[int, Field(ge=0), BeforeValidator(_whole)]
Position = Annotated[int, Field(ge=1, le=MAX_SUGGESTIONS), BeforeValidator(_whole)]


class Asked(BaseModel):
    """Base of all requests."""

    model_config = ConfigDict(strict=True, extra="forbid")


class InSession(Asked):
    """A request about a session."""

    context: Context = Field(default_factory=list)
    session_id: Identifier | None = None
    model: ModelName = None


Correct = Annotated[
    bool,
    Field(
        description="Answer for the corrected text where what was typed has a slip, and use the "
        "site's synonyms; `corrected` says what was changed."
    ),
]


class PastSearch(Asked):
    """An earlier search of the visitor."""

    query: Query
    time: float = Field(ge=0, le=1e12, description="When it was last typed, seconds since 1970.")
    count: Annotated[int, Field(ge=1, le=MAX_COUNT), BeforeValidator(_whole)] = 1


class OfVisitor(InSession):
    """A request that may say what the visitor searched for before."""

    history: list[PastSearch] | None = Field(
        default=None,
        max_length=MAX_HISTORY,
        description="Searches of this visitor before this one, newest first. They are used for "
        "this answer and not kept. Without a model of returning visitors they are ignored.",
    )
    user_id: Identifier | None = Field(
        default=None,
        description="The site's own pseudonym of a signed-in visitor, instead of `history`: the "
        "service keeps the searches, if its `user_days` is set (409 otherwise).",
    )


class SuggestRequest(OfVisitor):
    """Ask for the queries that may come next."""

    query: Query = Field(description="The query the user has just typed.")
    n: Count | None = ListLength
    correct: Correct = True
    diversity: float = Field(
        default=0.0, ge=0, le=1, description="0 takes the likeliest, 1 the most unlike each other."
    )
    specificity: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="How much lower globally popular queries are ranked: 0 ranks by likelihood "
        "alone, 1 by what the session adds. By default the setting of the service or the model.",
    )
    known: Known | None = Field(
        default=None,
        description="Queries that enough users typed: no matter, ranked higher, or nothing else. "
        "By default the setting of the service or the model. A count model suggests no others.",
    )
    usefulness: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="How often log P(useful) is added to the value of a suggestion, by a model "
        "that has learnt from clicks what is useful; 409 by any other.",
    )

    results: Results | None = Field(
        default=None,
        description="How many results the query had, if the site reports it. After 0 the list "
        "begins with what people who found nothing searched for next, if the service has a rescue "
        "model.",
    )

    def options(self, settings: ServiceSettings) -> SuggestOptions:
        """How the list is to be made; the service has defaults for what was left out."""
        return SuggestOptions(
            n=self.n or settings.n,
            diversity=self.diversity,
            specificity=settings.specificity if self.specificity is None else self.specificity,
            known=self.known or settings.known,
            usefulness=self.usefulness,
        )


class SuggestBatchRequest(Asked):
    """Several requests at once."""

    requests: list[SuggestRequest] = Field(min_length=1, max_length=MAX_BATCH_REQUESTS)


class ScoreRequest(InSession):
    """Ask how likely given queries are to come next."""

    candidates: list[Query] = Field(min_length=1, max_length=MAX_CANDIDATES)


class CompleteRequest(OfVisitor):
    """Ask how a half-typed query may end."""

    prefix: Query
    n: Count | None = ListLength
    correct: Correct = True


class ExplainRequest(InSession):
    """Ask how much each query of a session counts."""


class Suggestion(BaseModel):
    """One suggested query."""

    text: str
    score: float = Field(description="Higher is better; comparable within one answer only.")
    source: str = Field(description="Where it comes from: seen in the log, or made up.")
    log_likelihood: float | None = Field(
        default=None, description="Natural logarithm, after the session; null for completions."
    )
    log_prior: float | None = Field(
        default=None,
        description="The same without a session: the difference is what the session adds.",
    )
    usefulness: float | None = Field(
        default=None, description="P(useful) after the session, where the list was made by it."
    )
    group: Literal["refine", "related", "next step"] | None = Field(
        default=None,
        description="What it does to the last query: adds terms, keeps some, or is a new topic; "
        "null for completions.",
    )


class Change(BaseModel):
    """A word that was corrected."""

    typed: str
    corrected: str


class Corrected(BaseModel):
    """The text for which a list was made instead of what was typed."""

    text: str
    changes: list[Change]


CorrectedText = Annotated[
    Corrected | None,
    Field(description="What was typed had a slip: the list is for this text. Null: as typed."),
]


class Again(BaseModel):
    """An earlier query of the visitor."""

    text: str
    probability: float | None = Field(
        default=None, description="P(it is the next query); null for completions."
    )


OwnPast = Annotated[
    list[Again],
    Field(
        description="Earlier queries of this visitor that are likely now, or that begin with the "
        "prefix; left out if the request has neither `history` nor `user_id`."
    ),
]


class SuggestAnswer(BaseModel):
    """What may come next."""

    suggestions: list[Suggestion]
    corrected: CorrectedText = None
    model: str = Field(description="The model that answered.")
    fallback: bool = Field(description="Whether the fallback answered for a late or busy model.")
    query_id: str = Field(description="Names this list in feedback.")
    again: OwnPast = Field(default_factory=list)


class SuggestBatchAnswer(BaseModel):
    """One answer per request, in their order."""

    answers: list[SuggestAnswer]


class Score(BaseModel):
    """How likely a candidate is."""

    text: str
    log_likelihood: float | None = Field(description="Natural log; null where it is impossible.")
    words: int = Field(description="Predicted symbols, the end of the query included.")
    unknown: list[str] = Field(description="Words that the model does not know.")


class ScoreAnswer(BaseModel):
    """Scores in the order of the candidates."""

    scores: list[Score]
    model: str


class TrendsAnswer(BaseModel):
    """Trending queries."""

    trends: list[Suggestion]
    model: str


class CompleteAnswer(BaseModel):
    """How the query may end."""

    completions: list[Suggestion]
    corrected: CorrectedText = None
    model: str
    again: OwnPast = Field(default_factory=list)


class UserHistory(BaseModel):
    """All that is kept of a user."""

    searches: list[PastSearch] = Field(description="Newest first.")


class QueryWeight(BaseModel):
    """How much a query of the session counts."""

    text: str
    update: float = Field(description="How far it opened the session's update gate, 0 to 1.")
    share: float = Field(description="How much of the session's present state it makes up.")


class ExplainAnswer(BaseModel):
    """A weight for each query of the session, oldest first."""

    queries: list[QueryWeight]
    model: str


class Feedback(Asked):
    """What a user did with a list of suggestions."""

    query_id: Identifier = Field(description="From the answer that the user saw.")
    client_id: Identifier = Field(description="A pseudonym of the user or browser.")
    query: Query = Field(min_length=1, description="What the user had typed.")


class Shown(Feedback):
    """The list was shown."""

    action: Literal["shown"]
    suggestions: list[Query] = Field(max_length=MAX_SUGGESTIONS)


class Clicked(Feedback):
    """A suggestion was accepted."""

    action: Literal["clicked"]
    suggestion: Query = Field(min_length=1)
    position: Position


class Dismissed(Feedback):
    """The list was closed without taking anything."""

    action: Literal["dismissed"]


FeedbackRequest = Annotated[Shown | Clicked | Dismissed, Field(discriminator="action")]


class ModelFacts(BaseModel):
    """A served model."""

    name: str
    kind: str
    explains: bool
    judges_usefulness: bool = Field(description="Whether it takes `usefulness`.")
    version: str = Field(description="Changes when another model is loaded under the name.")
    specificity: float = Field(
        description="How much lower globally popular queries are ranked, unless a request says "
        "otherwise."
    )
    min_users: int = Field(description="K of the guard: what fewer users typed is not shown.")


class ModelsAnswer(BaseModel):
    """The served models, the default first."""

    models: list[ModelFacts]
    feedback: bool = Field(description="Whether feedback is recorded.")


class Health(BaseModel):
    """Whether the service is well."""

    status: str


class KillSwitch(Asked):
    """Whether every list is to be empty."""

    on: bool


class BlockRequest(Asked):
    """An entry of the blocklist."""

    text: Query = Field(
        min_length=1,
        description='A word or phrase that may be in no suggestion, or a whole query: `="search"`.',
    )


class Blocked(BaseModel):
    """The entry that was added or removed."""

    text: str = Field(description="The text as the file has it: normalised.")


class ProblemDocument(BaseModel):
    """An answer other than the one asked for (RFC 9457)."""

    title: str
    status: int
    detail: str
    request_id: str


_PLAIN_QUERY = re.compile(r"[a-z0-9]{1,64}(?: [a-z0-9]{1,64})*")
"""A normalised query of ASCII letters and digits."""
BYTES_BEFORE_OTHERS = 4096
"""After this number of bytes of a long list of texts, other requests are served first."""


def read_texts(body: InSession) -> None:
    """Normalise the query and the context of a request, in place."""
    body.context = read_session(body.context)
    if isinstance(body, SuggestRequest):
        body.query = read_query(body.query)


def read_query(text: str) -> str:
    """A query, normalised; characters beyond the longest word or query are left out."""
    query = normalise_query(text, MAX_QUERY_CHARACTERS)
    if len(query) <= MAX_WORD_CHARACTERS:
        return query
    return " ".join(word[:MAX_WORD_CHARACTERS] for word in query.split())


def read_session(queries: Sequence[str]) -> list[str]:
    """The last queries of a session, normalised; beyond `MAX_SESSION_BYTES` none is read."""
    normalised: list[str] = []
    left = MAX_SESSION_BYTES
    for query in reversed(queries):
        # What is dropped by normalising takes time, too.
        left -= text_bytes(query)
        if left < 0:
            break
        text = read_query(query)
        left -= max(0, text_bytes(text) - text_bytes(query))
        if text:
            normalised.append(text)
    return normalised[::-1]


def read_history(searches: Sequence[PastSearch]) -> tuple[PastQuery, ...]:
    """The earlier searches of a visitor, normalised, newest first and without repeats.

    Beyond `MAX_HISTORY_BYTES` none is read.
    """
    normalised: list[PastQuery] = []
    left = MAX_HISTORY_BYTES
    for search in searches:
        left -= text_bytes(search.query)
        if left < 0:
            break
        # Most texts come back as the service gave them: no need to normalise them again.
        plain = _PLAIN_QUERY.fullmatch(search.query) is not None
        if text := search.query if plain else read_query(search.query):
            normalised.append(PastQuery(text, search.time, search.count))
    return merge_history(normalised)


def read_prefix(text: str) -> str | None:
    """A half-typed query, normalised, and after it what shows that its last word is whole.

    None if it is longer than anything that could be completed.
    """
    prefix = normalise_query(text, MAX_QUERY_CHARACTERS)
    if len(prefix) > MAX_PREFIX_CHARACTERS:
        return None
    return prefix + text[-1] if prefix and not normalise_query(text[-1]) else prefix


async def read_many(texts: Sequence[str]) -> list[str]:
    """Many queries, normalised; other requests are served in between."""
    queries: list[str] = []
    since = 0
    for text in texts:
        since += text_bytes(text)
        if since > BYTES_BEFORE_OTHERS:
            await asyncio.sleep(0)
            since = 0
        queries.append(read_query(text))
    return queries
