import os
import signal

from nextquery.cli.signals import save_on_signals


def test_the_first_signal_is_a_request_and_the_usual_handling_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with save_on_signals() as request:
        assert request.signal == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.signal == signal.SIGTERM
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
