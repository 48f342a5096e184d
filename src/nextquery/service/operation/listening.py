"""The socket that a server listens on, opened before anything is said about its address."""

import socket

from nextquery.errors import InputError

BACKLOG = 1024


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, which several processes may share; port 0 takes a free one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InputError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    except (UnicodeError, OverflowError):
        raise InputError(f"cannot listen on {host}:{port}: no such host name or port") from None


def address(host: str, listener: socket.socket) -> str:
    """Where a browser finds the listener: the host as the operator wrote it, the real port."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"
