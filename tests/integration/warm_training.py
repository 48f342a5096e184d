"""What a process imports from which trainings are forked (`training_runs.py`)."""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import nextquery.training.publishing
import nextquery.training.run  # noqa: F401
