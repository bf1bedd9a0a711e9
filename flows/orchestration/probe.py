"""What is known of Prefect here and of the server that is named: for those who may not import Prefect themselves."""

from __future__ import annotations

import os
import socket
import urllib.error
import urllib.parse
import urllib.request
from typing import Final

from flows.orchestration.server import set_up_prefect

set_up_prefect()

from prefect.settings import get_current_settings  # noqa: E402

from pipeline.errors import InputError  # noqa: E402
from pipeline.execution.cluster import is_loopback  # noqa: E402

#: Seconds to wait for the server.
_PATIENCE: Final = 5
#: What follows where several workers use one server.
ONE_WRITER: Final = (
    "more than one worker needs a server that keeps its records in PostgreSQL; SQLite, the default, lets one write at "
    'a time, and requests fail with "database is locked" (docs/stopping.md#sqlite-and-postgresql)'
)


def open_to_others(url: str) -> str:
    """Who could give the server orders without a password; "" where nobody on another machine could.

    A request without a password is sent, and a connection is tried to every address of this machine: what the server
    does is looked at, and not what its settings say.
    """
    try:
        with urllib.request.urlopen(f"{url}/admin/version", timeout=_PATIENCE):
            pass
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            return ""
    except (OSError, ValueError):
        return ""  # nothing answers; whoever needs the server says so
    parts = urllib.parse.urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if not is_loopback(host):
        return f"{url} does what anybody asks who can reach {host}"
    for address in _own_addresses():
        try:
            with socket.create_connection((address, port), timeout=1):
                return f"{url} does what anybody asks who can reach port {port} of {address}"
        except OSError:
            continue
    return ""


def check_server() -> None:
    """Refuse to deploy on a server, or to work for one, to which anybody could give orders.

    Raises:
        InputError: none is named, or it is open to others.
    """
    url = os.environ.get("PREFECT_API_URL") or get_current_settings().api.url
    if not url:
        raise InputError(
            "PREFECT_API_URL: missing; it names the Prefect server, such as http://127.0.0.1:4200/api after "
            "`prefect server start`"
        )
    if exposed := open_to_others(url):
        raise InputError(
            f"PREFECT_API_URL: {exposed}, without a password: they could run anything as the worker. Start the server "
            "with PREFECT_SERVER_API_AUTH_STRING=name:password, and give workers and this command "
            "PREFECT_API_AUTH_STRING; or let it listen on this machine alone: prefect server start --host 127.0.0.1"
        )


def may_keep_in_sqlite() -> bool:
    """Whether the server may keep its records in SQLite, its default: it tells nobody, but the same may be set here."""
    url = get_current_settings().server.database.connection_url
    return url is None or not url.get_secret_value().startswith("postgresql")


def _own_addresses() -> list[str]:
    """The addresses of this machine at which others may reach it."""
    import psutil

    found = [one.address for some in psutil.net_if_addrs().values() for one in some if one.family == socket.AF_INET]
    return [address for address in found if not is_loopback(address)]
