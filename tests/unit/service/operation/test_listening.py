"""The socket that a server listens on."""

import pytest

from nextquery.errors import InputError
from nextquery.service.run import address, listen


def test_port_0_takes_a_free_one_and_the_address_names_it() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert port > 0
        assert address("127.0.0.1", listener) == f"http://127.0.0.1:{port}"
        assert address("::1", listener) == f"http://[::1]:{port}"


def test_a_taken_port_is_named() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}: "):
            listen("127.0.0.1", port)


def test_a_host_that_is_not_this_one_is_named() -> None:
    with pytest.raises(InputError, match=r"cannot listen on 192\.0\.2\.1:0: "):
        listen("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["\udcff", "a/../..", "\u202e", "x" * 300, "a..b"])
def test_a_host_that_is_no_name_is_refused(host: str) -> None:
    with pytest.raises(InputError, match="cannot listen on "):
        listen(host, 0)
