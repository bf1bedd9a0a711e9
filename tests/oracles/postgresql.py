"""A PostgreSQL server of the tests' own: started in a new folder, reached by a socket there, gone at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class NoServerError(Exception):
    """There can be no server here; the message says why."""


def binaries() -> Path:
    """The folder of the server's programs; Debian does not put them on the path."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in found:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoServerError("PostgreSQL's initdb and postgres are not installed (Debian: apt-get install postgresql)")


@contextmanager
def server() -> Iterator[str]:
    """Its URL, for SQLAlchemy. Raises NoServerError where none can be had."""
    try:
        import psycopg
    except ImportError:
        raise NoServerError("the package psycopg is not installed") from None
    programs = binaries()
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path must be short
    running: subprocess.Popen[bytes] | None = None
    try:
        identity: dict[str, Any] = {}
        if os.getuid() == 0:  # the server refuses to be root
            user = _unprivileged()
            os.chown(folder, user.pw_uid, user.pw_gid)
            identity = {"user": user.pw_uid, "group": user.pw_gid}
        environment = {"PATH": os.defpath, "HOME": str(folder), "LC_ALL": "C", "TZ": "UTC"}
        log = (folder / "log").open("wb")
        with log:
            made = subprocess.run(
                [programs / "initdb", "-D", folder / "data", "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync"],
                env=environment, stdout=log, stderr=log, extra_groups=[] if identity else None, **identity,
            )  # fmt: skip
            if made.returncode:
                raise NoServerError(f"initdb failed: {(folder / 'log').read_text()[-300:]}")
            options = {"listen_addresses": "", "max_connections": "80", "fsync": "off", "shared_buffers": "16MB"}
            running = subprocess.Popen(
                [str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder)]
                + [part for name, value in options.items() for part in ("-c", f"{name}={value}")],
                env=environment, stdout=log, stderr=log, extra_groups=[] if identity else None, **identity,
            )  # fmt: skip
        for _ in range(300):
            try:
                psycopg.connect(host=str(folder), user="tests", dbname="postgres").close()
                break
            except psycopg.OperationalError:
                if running.poll() is not None:
                    break
                time.sleep(0.1)
        else:
            raise NoServerError("the server did not answer within 30 s")
        if running.poll() is not None:
            raise NoServerError(f"the server ended: {(folder / 'log').read_text()[-300:]}")
        yield f"postgresql://tests@/postgres?host={folder}"
    finally:
        if running is not None:
            running.send_signal(signal.SIGQUIT)  # what it wrote is thrown away
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoServerError("the tests run as root, which the server refuses, and there is no user to run it as")
