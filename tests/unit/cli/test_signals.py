"""A signal ends a command in one line with 130 or 143, wherever it stands."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CODES = {signal.SIGINT: (130, "stopped by Ctrl-C\n"), signal.SIGTERM: (143, "stopped by SIGTERM\n")}

BEGIN = """
import sys, time
from pathlib import Path
from nextquery.artifacts import publish
from nextquery.cli.entry import stop_on_signals
import nextquery.cli.entry as signals
signals.PATIENCE_SECONDS = 0.5
with stop_on_signals(), publish(Path(sys.argv[1]) / "a" / "out", "data", {}) as folder:
    (folder / "part.txt").write_text("half")
    print("ready", flush=True)
"""
IN_PYTHON = BEGIN + "    time.sleep(60)"
SWALLOWED = f"""{BEGIN}    try:
        time.sleep(60)
    except BaseException:
        raise ValueError
"""
IN_A_FINALISER = (
    """
import time
class Writer:
    def __del__(self):
        time.sleep(0.3)
"""
    + BEGIN
    + "    Writer()\n    time.sleep(60)"
)
IN_COMPILED_CODE = f"""
import ctypes, tempfile
held = tempfile.TemporaryDirectory()
print(held.name, flush=True)
{BEGIN}    ctypes.CDLL(None).sleep(60)
    ctypes.CDLL(None).sleep(60)
"""
MODULE = """
import os, time
print("ready", flush=True)
try:
    time.sleep(60)
except BaseException:
    os.abort()  # as some compiled modules do
"""
IN_A_CALL_OF_JAVA = """
import time
def send_command():
    print("ready", flush=True)
    try:
        time.sleep(60)
    except BaseException:
        raise OSError("Error while sending or receiving")  # as Py4J makes of every exception
"""
CALLS_JAVA = BEGIN.replace(
    'print("ready", flush=True)',
    """sys.path.insert(0, sys.argv[2])
    from py4j import java_gateway
    try:
        java_gateway.send_command()
    finally:
        print("Unable to cleanly shutdown Spark", file=sys.stderr)""",
)
COMPLAINS = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
{BEGIN}    try:
        time.sleep(60)
    finally:
        child.wait()
        while True:
            print("the child is gone", file=sys.stderr, flush=True)
"""
IN_AN_IMPORT = BEGIN.replace(
    'print("ready", flush=True)', "sys.path.insert(0, sys.argv[2]); import compiled_module"
)


def stopped(script: str, folder: Path, number: signal.Signals, *args: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", script, str(folder), *args]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first, line = "", process.stdout.readline()
        while line.strip() != "ready":
            first, line = line.strip(), process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    return process.returncode, errors, first


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("script", [IN_PYTHON, SWALLOWED, IN_A_FINALISER, COMPLAINS])
def test_one_line_and_nothing_left(tmp_path: Path, script: str, number: signal.Signals) -> None:
    code, errors, _ = stopped(script, tmp_path, number)
    assert (code, errors) == CODES[number]
    assert list(tmp_path.iterdir()) == []


def run_script(script: str, folder: Path) -> tuple[int, str]:
    command = [sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


TWO_AT_ONCE = f"""
import os, signal
both = {{signal.SIGINT, signal.SIGTERM}}
signal.pthread_sigmask(signal.SIG_BLOCK, both)  # in every thread
{BEGIN}    for number in both:
        os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
    time.sleep(60)
"""
WHILE_STOPPING = f"""
import os, signal
{BEGIN}    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT) * 20:
            os.kill(os.getpid(), number)
            time.sleep(0.001)
"""
AFTER_THE_COMMAND = """
import os, signal, sys, time
from nextquery.cli.entry import stop_on_signals
with stop_on_signals():
    pass
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
"""


LONG_STEP = """
import os, signal, sys, time
import nextquery.cli.entry as signals
signals.PATIENCE_SECONDS = 0.3
with signals.stop_on_signals():
    with signals.save_on_signals() as request:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1.5)  # the rest of a step, and the checkpoint
    print("saved after signal", request.signal, file=sys.stderr)
"""


def test_a_training_step_that_takes_long_is_finished_and_saved(tmp_path: Path) -> None:
    """The watching thread must not take a request to save for a signal that nobody noticed."""
    assert run_script(LONG_STEP, tmp_path) == (0, "saved after signal 2\n")


@pytest.mark.parametrize(
    ("script", "number"),
    [
        (TWO_AT_ONCE, signal.SIGINT),
        (WHILE_STOPPING, signal.SIGTERM),
        (AFTER_THE_COMMAND, signal.SIGINT),
    ],
    ids=["two at once", "while stopping", "after the command"],
)
def test_further_and_late_signals_are_one_line(
    tmp_path: Path, script: str, number: signal.Signals
) -> None:
    assert run_script(script, tmp_path) == CODES[number]
    assert list(tmp_path.iterdir()) == []


def test_other_commands_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".out.0123abcd.other").mkdir()
    stopped(IN_PYTHON, tmp_path, signal.SIGTERM)
    assert [path.name for path in (tmp_path / "a").iterdir()] == [".out.0123abcd.other"]


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize(
    ("script", "module", "source"),
    [
        (IN_AN_IMPORT, "compiled_module/__init__.py", MODULE),
        (CALLS_JAVA, "py4j/java_gateway.py", IN_A_CALL_OF_JAVA),
    ],
    ids=["import", "Java"],
)
def test_imports_and_calls_of_java_are_not_left_by_an_exception(
    tmp_path: Path, script: str, module: str, source: str, number: signal.Signals
) -> None:
    file, out = tmp_path / "modules" / module, tmp_path / "out"
    file.parent.mkdir(parents=True)
    out.mkdir()
    (file.parent / "__init__.py").touch()
    file.write_text(source)
    code, errors, _ = stopped(script, out, number, str(tmp_path / "modules"))
    assert (code, errors) == CODES[number]
    assert list(out.iterdir()) == []


def test_compiled_code_that_does_not_come_back_is_ended(tmp_path: Path) -> None:
    code, errors, held = stopped(IN_COMPILED_CODE, tmp_path, signal.SIGTERM)
    assert (code, errors) == CODES[signal.SIGTERM]
    assert not list(tmp_path.rglob("part.txt"))
    assert not Path(held).exists()


def test_a_command_of_the_program_is_stopped(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nextquery", "synth", str(tmp_path / "log.tsv")]
    with subprocess.Popen(
        [*command, "--sessions", "5000000"], stderr=subprocess.PIPE, text=True
    ) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        while "polars" not in maps.read_text() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors.splitlines()[-1:]) == (130, ["stopped by Ctrl-C"])
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


WITH_A_CHILD = f"""
import signal, subprocess, sys
stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN)"
stubborn += "; print(1, flush=True); time.sleep(99)"
child = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
{BEGIN}    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
def test_what_a_command_started_ends_with_it(tmp_path: Path) -> None:
    code, errors, child = stopped(WITH_A_CHILD, tmp_path, signal.SIGTERM)
    assert (code, errors) == CODES[signal.SIGTERM]
    end = time.monotonic() + 120
    while Path(f"/proc/{child}/cmdline").exists() and time.monotonic() < end:
        time.sleep(0.05)  # killed, and about to be taken off the table
    assert not Path(f"/proc/{child}/cmdline").exists()
