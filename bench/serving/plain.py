"""What the service is measured against: a FastAPI handler that calls the model, one at a time.

`python plain.py MODEL PORT`. Plain PyTorch, called in the handler, as a first version would: HRED's
own steps, beam 10 by likelihood, without copying, guard or ranking (`engine.plain_search`).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from bench.decode import plain_state
from bench.engine import plain_search
from nextquery.model.hred import HRED

app = FastAPI()
model = HRED.from_pretrained(sys.argv[1])
model.eval()


class Asked(BaseModel):
    """The request of `/v1/suggest`, as far as it is used here."""

    query: str
    context: list[str] = []
    session_id: str | None = None
    n: int = 5


@app.get("/readyz")
async def readyz() -> dict[str, str]:
    """Reached only once the model is loaded."""
    return {"status": "ready"}


@app.post("/v1/suggest")
async def suggest(asked: Asked) -> dict[str, list[dict[str, object]]]:
    """The list for a context."""
    state = plain_state(model, [*asked.context, asked.query])
    queries = plain_search(model, state)[: asked.n]
    return {"suggestions": [{"text": model.vocabulary.decode(words)} for words in queries]}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
