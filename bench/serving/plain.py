"""What the service is measured against: a FastAPI handler that calls the model, one at a time.

`python plain.py MODEL PORT`. The model is called in the handler, as a first version would.
"""

import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from nextquery import load

app = FastAPI()
suggester = load(sys.argv[1])


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
    found = suggester.suggest([*asked.context, asked.query], asked.n)
    return {"suggestions": [{"text": item.text, "score": item.score} for item in found]}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
