"""Files that are either complete or absent, and whose bytes depend on their content alone.

A file is written in a staging folder of the same filesystem, flushed to the disk, and moved into place; a process that
is killed leaves nothing half-written under its final name. Parquet files are cut into row groups of a number of rows
that the content alone decides, so that the batches in which a file is computed cannot be seen in its bytes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import resource
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from pipeline.errors import InputError, MemoryShortError, ReleaseError
from pipeline.storage.durable import make_folder, sync_folder
from pipeline.storage.guard import GuardedFile
from pipeline.storage.paths import Readable, check_regular, local_name

logger = logging.getLogger(__name__)

#: Key of our own header (canonical JSON) in the metadata of a Parquet file.
HEADER_KEY = b"spinewise"

#: Numbers (rows times columns) in one row group of a Parquet file; 8 MB of int64.
VALUES_PER_ROW_GROUP = 1 << 20

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


def write_problem(error: OSError, path: Path) -> str:
    """The reason, as a sentence, why `path` could not be written."""
    if error.errno in _NO_SPACE:
        free = ""
        with suppress(OSError):
            free = f" ({shutil.disk_usage(path.parent).free / 1e6:.1f} MB are free)"
        return f"cannot write {path}: there is no space left for it{free}"
    if error.errno == errno.EFBIG:
        return f"cannot write {path}: it is larger than a file may be{_largest_file()}"
    if error.errno == errno.EXDEV:
        return (
            f"cannot move {path} into place: the release's public and restricted folders are on different file "
            "systems; they must be on one"
        )
    if error.errno == errno.EROFS:
        return f"cannot write {path}: the file system is read-only"
    return f"cannot write {path}: {error.strerror or error}"


def _largest_file() -> str:
    """The limit that the shell or the service sets, in words."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == resource.RLIM_INFINITY:
        return " on this file system"
    return f" here: the limit is {limit / 1e6:.1f} MB (ulimit -f, RLIMIT_FSIZE)"


def make_restricted(path: Path) -> None:
    """Create the folder `path` with mode 0700, or close an existing one to all but its owner.

    Raises:
        ReleaseError: `path` is not a folder, belongs to another user, or cannot be closed to others.
    """
    try:
        make_folder(path.parent)
        make_folder(path, private=True)
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise ReleaseError(f"{path} must be a folder of its own for what is confidential, and it is not a folder")
        if status.st_uid != os.geteuid():
            raise ReleaseError(
                f"{path} belongs to user {status.st_uid} and not to user {os.geteuid()}, who runs this; "
                "confidential files are only written to a folder of one's own"
            )
        if (mode := stat.S_IMODE(status.st_mode)) != 0o700:
            if mode & 0o077:
                logger.warning("%s had mode %04o, which gives others access; it is set to 0700", path, mode)
            path.chmod(0o700)
            if (mode := stat.S_IMODE(path.lstat().st_mode)) != 0o700:
                raise ReleaseError(
                    f"{path} has mode {mode:04o} and the file system does not let it be 0700; confidential files "
                    "need a file system with permissions"
                )
    except OSError as error:
        raise ReleaseError(write_problem(error, path)) from error


@contextmanager
def staged(target: Path, staging: Path, *, private: bool = False) -> Iterator[Path]:
    """A new, empty file in `staging` to write to, which becomes `target` when the block ends without an error.

    Args:
        target: where the file is to be; its folder is made, an existing file is replaced in one step.
        staging: an existing folder on the same file system, itself closed to others.
        private: give the file mode 0600 instead of what the umask allows.

    Raises:
        ReleaseError: the file cannot be written; nothing has changed at `target` then.
    """
    temporary = staging / f"{target.name}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        make_folder(target.parent, private=private)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise ReleaseError(write_problem(error, target)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_bytes(target: Path, data: bytes, staging: Path, *, private: bool = False) -> None:
    """Write `data` to `target`, whole or not at all; see `staged`."""
    with staged(target, staging, private=private) as path:
        path.write_bytes(data)


def sha256_file(path: Path) -> str:
    """SHA-256 of the file's bytes, in hexadecimal."""
    check_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_json(value: object) -> bytes:
    """The one way in which `value` is written as JSON: sorted keys, two spaces, UTF-8, a newline at the end.

    Raises:
        ValueError, TypeError: `value` holds what JSON cannot (NaN, infinity, lone surrogates, other objects).
    """
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def json_sha256(value: object) -> str:
    """SHA-256 of `value` as canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def differing_keys(first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    """The keys, in order, whose values differ, or that one of the two has not."""
    return sorted(key for key in first.keys() | second.keys() if first.get(key) != second.get(key))


def write_json(target: Path, value: object, staging: Path, *, private: bool = False) -> None:
    """Write `value` as canonical JSON, whole or not at all."""
    write_bytes(target, canonical_json(value), staging, private=private)


def rows_per_group(values_per_row: int, values: int = VALUES_PER_ROW_GROUP) -> int:
    """Rows of a row group of about `values` numbers; a function of the content, never of the batches."""
    return max(1, values // max(1, values_per_row))


def strings(values: NDArray[Any]) -> pa.StringArray:
    """An array without chunks; from 16 megabytes on Arrow would make several."""
    column = pa.array(values, type=pa.string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def texts(column: pa.ChunkedArray) -> NDArray[np.str_]:
    """The texts of a column without nulls, `(n,)`.

    Codes of geounits are of one length as a rule: their letters are widened all at once, in a tenth of the time.
    """
    parts = [_of_one_length(chunk) for chunk in column.chunks]
    if not parts or any(part is None for part in parts):
        return np.asarray(column.to_numpy(), dtype=np.str_)
    return np.concatenate(parts) if len(parts) > 1 else parts[0]  # type: ignore[arg-type, return-value]


def _of_one_length(array: pa.Array) -> NDArray[np.str_] | None:
    """The texts of an array; None unless they are all of one length, of ASCII letters other than NUL."""
    if array.type != pa.string() or array.null_count or not len(array):
        return None
    _, offsets, letters = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)
    length = int(ends[1] - ends[0])
    if not length or (np.diff(ends) != length).any():
        return None
    codes = np.frombuffer(letters, dtype=np.uint8, count=len(array) * length, offset=int(ends[0]))
    if codes.max() > 127 or not codes.min():
        return None
    return codes.reshape(len(array), length).astype(np.uint32).view(f"U{length}")[:, 0]


class ParquetSink:
    """An open Parquet file that takes one row group at a time."""

    def __init__(self, path: Path, schema: pa.Schema, header: Mapping[str, object]) -> None:
        self.schema = schema.with_metadata({HEADER_KEY: canonical_json(dict(header))})
        self._writer = pq.ParquetWriter(
            local_name(path),
            self.schema,
            version="2.6",
            data_page_version="1.0",
            compression="zstd",
            compression_level=3,
            use_dictionary=True,
            # Geocodes of a row group are one dictionary; past the default of 1 MB they would be spelled out row by row.
            dictionary_pagesize_limit=64 << 20,
            write_statistics=True,
            write_page_checksum=True,
            # Keeps dictionary columns what they are, so that pandas reads categories and not repeated strings.
            store_schema=True,
        )

    def write(self, *columns: pa.Array) -> None:
        """Append the columns as one row group; arrays without chunks, since page boundaries follow chunks."""
        batch = pa.RecordBatch.from_arrays(list(columns), schema=self.schema)
        self._writer.write_table(pa.Table.from_batches([batch]), row_group_size=max(1, batch.num_rows))

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


@contextmanager
def parquet_sink(
    target: Path, staging: Path, schema: pa.Schema, header: Mapping[str, object], *, private: bool = False
) -> Iterator[ParquetSink]:
    """Write a Parquet file row group by row group, whole or not at all; see `staged`."""
    with staged(target, staging, private=private) as path:
        sink = ParquetSink(path, schema, header)
        try:
            yield sink
        finally:
            sink.close()


def write_parquet(
    target: Path, table: pa.Table, staging: Path, header: Mapping[str, object], *, private: bool = False
) -> None:
    """Write a table that is in memory; its bytes depend on its values and `header`, not on its chunks."""
    group = rows_per_group(table.num_columns)
    with parquet_sink(target, staging, table.schema, header, private=private) as sink:
        for start in range(0, table.num_rows, group):
            part = table.slice(start, group).combine_chunks()
            sink.write(*(column.chunk(0) for column in part.columns))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what goes wrong with a Parquet file in the block into a ReleaseError that names it."""
    try:
        yield
    except pa.ArrowMemoryError:
        raise MemoryShortError(str(path)) from None
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise ReleaseError(f"{path} cannot be read as a Parquet file: {str(error).splitlines()[0]}") from error


@contextmanager
def open_parquet(path: Readable, rows: int | None = None) -> Iterator[GuardedFile]:
    """The open Parquet file; ReleaseError where it is missing or damaged. Read from it in `reading` blocks.

    Args:
        path: of the file, which may be anybody's: see `pipeline.storage.guard`.
        rows: that it can have at most, by the spine and the schema; None if the reader cannot know.
    """
    with reading(path):
        file = GuardedFile(path, rows)
    with file:
        metadata = file.metadata
        if metadata.num_rows != sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)):
            raise ReleaseError(f"{path} is damaged: the numbers of rows that it states do not add up")
        yield file


def read_row_groups(file: GuardedFile, path: Path) -> Iterator[pa.Table]:
    """The row groups in order; ReleaseError where one does not have the number of rows that the file states."""
    for group in range(file.num_row_groups):
        yield read_row_group(file, group, path)


def read_row_group(file: GuardedFile, group: int, path: Path) -> pa.Table:
    """One row group; ReleaseError where it does not have the number of rows that the file states."""
    table = file.read_row_group(group, use_threads=False)
    if table.num_rows != file.metadata.row_group(group).num_rows:
        raise ReleaseError(f"{path} is damaged: a part of it does not have the number of rows that the file states")
    return table


def read_header(file: GuardedFile, path: Path) -> dict[str, Any]:
    """Our header in the metadata of a Parquet file; ReleaseError where there is none."""
    try:
        header = json.loads((file.schema_arrow.metadata or {})[HEADER_KEY])
    except (KeyError, ValueError) as error:
        raise ReleaseError(f"{path} was not written by this software: its header is missing or damaged") from error
    if not isinstance(header, dict):
        raise ReleaseError(f"{path} was not written by this software: its header is damaged")
    return header


def check_new(out: Path) -> None:
    """InputError where `out` is something, and not an empty folder: nothing of the user's is ever replaced."""
    try:
        if out.is_symlink() or (out.exists() and not out.is_dir()):
            raise InputError(f"--out {out}: is not a folder; give one that is new or empty")
        if out.is_dir() and (entry := min((item.name for item in out.iterdir()), default="")):
            raise InputError(f"--out {out}: the folder holds {entry} already; give one that is new or empty")
    except OSError as error:
        raise InputError(f"--out {out}: cannot be read ({error.strerror or error})") from None


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to write to, which becomes `out` when the block ends without an error.

    Args:
        out: must not be there yet, or be an empty folder.

    Raises:
        InputError: `out` holds something, or cannot be made.
        ReleaseError: writing fails; nothing is left then.
    """
    check_new(out)
    partial = out.parent / f".{out.name}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be made ({error.strerror or error})") from None
    try:
        yield partial
        partial.rename(out)  # over an empty folder, too
    except OSError as error:
        raise ReleaseError(write_problem(error, out)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


PREFIX: Final = "spinewise-"
_LOCK: Final = ".lock"
#: Seconds after which a folder without a lock was not just made.
_YOUNG: Final = 60.0


@contextmanager
def temporary_folder(purpose: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder with mode 0700 that is removed when the block ends; leftovers of dead processes are removed first.

    Args:
        purpose: what it is for, part of its name.
        parent: an existing folder; by default the system's, which TMPDIR names.

    Raises:
        ReleaseError: it cannot be made.
    """
    place = Path(tempfile.gettempdir()) if parent is None else parent
    remove_leftovers(place)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-", dir=place))
    except OSError as error:
        raise ReleaseError(write_problem(error, place / f"{PREFIX}{purpose}")) from error
    lock = FileLock(folder / _LOCK, timeout=0, mode=0o600)
    try:
        lock.acquire()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            lock.release()


def remove_leftovers(place: Path) -> None:
    """Remove this user's folders in `place` whose processes have ended; what cannot be removed is left."""
    with suppress(OSError):
        for folder in place.glob(f"{PREFIX}*-*"):
            with suppress(OSError):
                if _is_left(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Whether a folder is this user's own, was made by `temporary_folder`, and no process holds it."""
    status = folder.lstat()
    if not folder.is_dir() or folder.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        return False
    if not (folder / _LOCK).exists():
        # Its process may be about to lock it; one of another program is never touched.
        return time.time() - status.st_mtime > _YOUNG and not any(folder.iterdir())
    lock = FileLock(folder / _LOCK, timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        return False
    lock.release()
    return True


_ENDINGS = (".html", ".htm")


def check_page_file(option: str, path: Path) -> None:
    """InputError, before anything is computed, if no page is to be written to the path: it may name an input."""
    if path.suffix not in _ENDINGS:
        raise InputError(f"{option} {path}: found the ending {path.suffix!r}; the name of a page ends in .html")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.parent}")


def write_page_file(option: str, path: Path, page: str) -> None:
    """Write a page; InputError where that fails, and what stood there is as it was."""
    try:
        write_bytes(path, page.encode(), path.parent)
    except (OSError, ReleaseError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{option} {path}: cannot be written ({why})") from None
