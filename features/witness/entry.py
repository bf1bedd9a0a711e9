"""What a log keeps of a release: one entry that anybody can make from its manifest alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pipeline.errors import ReleaseError
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import Manifest, read_manifest
from pipeline.release.receipts import Receipt

FORMAT: Final = "spinewise log entry 1"
#: Folders of public/ with what was drawn, or taken from the records as it is.
_DRAWN: Final = ("measurements", "selected", "invariants")
#: Bytes of an entry at most: its length is written with two bytes.
LONGEST_ENTRY: Final = 0xFFFF


@dataclass(frozen=True)
class Entry:
    """One release, as a log keeps it.

    Attributes:
        release: its name; of an answer "answer NAME", as its charge is called in the ledger.
        status: as the manifest states it.
        manifest: SHA-256 of the manifest's bytes, hexadecimal.
        draws: SHA-256 over the hashes of all files that were drawn, hexadecimal: two releases of one name with
            different draws are a redrawing.
        rows: root of the tree over all tables, hexadecimal; "" where there is none.
        key_commitment: of the master key; "" where another program drew the noise.
        receipts: "<ledger> <event> <hash> <dataset>" of each dataset that was charged, in order.
    """

    release: str
    status: str
    manifest: str
    draws: str
    rows: str
    key_commitment: str
    receipts: tuple[str, ...] = ()

    def data(self) -> bytes:
        """The entry's bytes, in one way only: JSON with sorted keys, without any space, UTF-8."""
        content = {"format": FORMAT, **self.__dict__}
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def read(cls, data: bytes) -> Entry:
        """The entry of these bytes; ReleaseError where they are none."""
        try:
            content = json.loads(data)
            kind = content.pop("format")
            receipts = content.pop("receipts")
            entry = cls(**content, receipts=tuple(receipts))
            texts = all(isinstance(value, str) for value in (*content.values(), *receipts))
            whole = texts and kind == FORMAT and all(len(receipt.split(" ")) == 4 for receipt in receipts)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ReleaseError("an entry is not that of a release") from None
        if not whole or entry.data() != data:
            raise ReleaseError("an entry is not that of a release, or not in the one form that it can have")
        return entry

    def contradicts(self, other: Entry) -> str:
        """Why this and an earlier entry cannot both be honest, in a few words; "" if they can.

        One release has one noise, and one event of a ledger is one charge, for one noise.
        """
        if self.release == other.release and self.draws != other.draws:
            return f"{self.release} was drawn again, with other noise"
        for receipt in self.receipts:
            ledger, number, digest, _ = receipt.split(" ")
            for earlier in other.receipts:
                if earlier.split(" ")[:3] == [ledger, number, digest] and self.draws != other.draws:
                    return f"{self.release} was drawn for the charge of {other.release}"
                if earlier.split(" ")[:2] == [ledger, number] and earlier.split(" ")[2] != digest:
                    return f"event {number} of the ledger {ledger[:12]} is two events: it was put back, or forked"
        return ""


def entry_of(run: RunDirectory) -> Entry:
    """The entry of a finished release; ReleaseError where its manifest is damaged."""
    manifest = read_manifest(run.manifest)
    return Entry(
        release=manifest.release,
        status=manifest.status,
        manifest=hashlib.sha256(run.manifest.read_bytes()).hexdigest(),
        draws=draws_of(manifest),
        rows="" if manifest.rows is None else manifest.rows.root,
        key_commitment=manifest.key_commitment,
        receipts=receipt_lines(manifest.receipts),
    )


def receipt_lines(receipts: Iterable[Receipt]) -> tuple[str, ...]:
    """Receipts as an entry has them."""
    return tuple(sorted(f"{one.ledger} {one.number} {one.hash} {one.dataset}" for one in receipts))


def draws_of(manifest: Manifest) -> str:
    """SHA-256, in hexadecimal, of a line "<hash>  <path>" for each file that was drawn, in the order of paths."""
    lines = [
        f"{entry.sha256}  {name}\n"
        for name, entry in sorted(manifest.files.items())
        if (name.split("/")[2:] if name.startswith("companions/") else name.split("/"))[0] in _DRAWN
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
