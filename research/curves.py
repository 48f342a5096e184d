"""The hidden intent while a model is trained: the probe on every checkpoint that appears.

A training run keeps only its newest checkpoints, so a thread probes each one when it appears.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nextquery.errors import ArtifactError
from nextquery.evaluation.probes.likelihood import intent_result
from nextquery.guard.guard import Guard
from nextquery.inference.hred import HREDModel
from nextquery.inference.hred_network import HREDNetwork
from nextquery.inference.predictor import Predictor
from nextquery.logs.data_folder import PreparedData
from nextquery.model.hred import HRED
from nextquery.model.settings import ModelConfig
from nextquery.records import ScoredQuery
from nextquery.text.vocabulary import Vocabulary
from nextquery.training.checkpoint import CheckpointFolder

SECONDS = 5.0
CASES = 1000


class Scores:
    """A model in memory as a system that scores."""

    def __init__(self, model: HRED) -> None:
        network = HREDModel(HREDNetwork(model.config, model.vocabulary, model.arrays()))
        self._predictor = Predictor(network, Guard())

    def score(self, context: Sequence[str], candidates: Sequence[str]) -> list[ScoredQuery]:
        """The log-likelihood of each candidate."""
        return self.score_many([context], [candidates])[0]

    def score_many(
        self, contexts: Sequence[Sequence[str]], candidates: Sequence[Sequence[str]]
    ) -> list[list[ScoredQuery]]:
        """The same for many contexts."""
        states = self._predictor.encoder.encode_many(contexts)
        return self._predictor.score_many(states, candidates)


class CurveWriter:
    """One line of a JSON-lines file per checkpoint: its step and what the probe finds."""

    def __init__(self, data: PreparedData, training: Path, curve: Path) -> None:
        self._data = data
        self._sessions = [item for item in data.sessions("validation") if len(item.queries) > 1]
        self._training = training
        self._curve = curve
        self._seen: set[int] = set()

    def look(self) -> None:
        """Probe the checkpoints that were not there the last time."""
        for path in sorted((self._training / "checkpoints").glob("step-*")):
            step = int(path.name.removeprefix("step-"))
            if step not in self._seen:
                self._seen.add(step)
                self._probe(step)

    def _probe(self, step: int) -> None:
        try:
            model = self._model(step)
        except (OSError, ArtifactError):  # gone already: a newer one is there
            return
        result = intent_result(Scores(model), self._sessions, most=CASES)
        assert result is not None
        near = {str(part.distance): part.nats for part in result.by_distance}
        line = {"step": step, "nats": result.nats, "intent": result.intent, "by_distance": near}
        with self._curve.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _model(self, step: int) -> HRED:
        folder = CheckpointFolder(self._training / "checkpoints", {})
        run = json.loads((folder.folder(step) / "run.json").read_text())
        keys = {key.partition(".")[::2]: value for key, value in run["identity"].items()}
        chosen = {key: value for (section, key), value in keys.items() if section == "model"}
        config = ModelConfig.model_validate(chosen)
        model = HRED(config, Vocabulary(self._data.words()[: config.vocabulary_size]))
        model.load_state_dict(folder.load(step).weights)
        return model


@contextmanager
def watched(writer: CurveWriter) -> Iterator[None]:
    """Look at new checkpoints for as long as the block runs."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(SECONDS):
            writer.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
