"""The process that trains the rankers of one job, asked and answered through a socket.

`rankers.py` starts it; it ends with the job.
"""

import contextlib
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection

from nextquery.evaluation.rankers import train_rankers
from nextquery.inference.process_memory import keep_freed_memory


def main() -> None:
    """Train what is asked for; an error is the answer, too."""
    keep_freed_memory()
    with Connection(int(sys.argv[1])) as asker, contextlib.suppress(EOFError, BrokenPipeError):
        job = asker.recv()
        try:
            asker.send(replace(train_rankers(job), seconds=time.process_time()))
        except Exception as error:
            asker.send(error)


if __name__ == "__main__":
    main()
