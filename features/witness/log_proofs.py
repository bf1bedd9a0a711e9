"""Proofs about a log for those who do not have it: that a release is in it, that it only grew since a checkpoint.

The first is a C2SP tlog-proof, the second the body of a request by which a witness of C2SP is asked to sign:

    c2sp.org/tlog-proof@v1          old 3
    index 4                         <base64 of a hash>
    <base64 of a hash>              ...
    ...

    <checkpoint>                    <checkpoint>
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from features.witness.checkpoint import Checkpoint, opened_checkpoint
from features.witness.entry import Entry
from features.witness.log import Log
from pipeline.release.merkle import (
    ProofError,
    check_consistency,
    consistency_path,
    inclusion_path,
    leaf_hash,
    root_from_path,
)
from pipeline.signatures.notes import read_note
from pipeline.signatures.signing_keys import PublicKey

_INCLUSION: Final = "c2sp.org/tlog-proof@v1\nindex "
_CONSISTENCY: Final = "old "


def inclusion_proof(log: Log, entry: Entry) -> bytes:
    """The proof that the log has an entry; ProofError where it has not."""
    place = log.place_of(entry)
    if place is None:
        raise ProofError(f"{entry.release} is not in the log {log.checkpoint.origin} as it is here")
    return _written(_INCLUSION + str(place), inclusion_path(log.hashes, place), log)


def consistency_proof(log: Log, earlier: int) -> bytes:
    """The proof that the log begins with its first `earlier` entries."""
    return _written(_CONSISTENCY + str(earlier), consistency_path(log.hashes, earlier), log)


def _written(head: str, path: list[bytes], log: Log) -> bytes:
    checkpoint = read_note(log.folder / "checkpoint", "checkpoint")
    lines = [head, *(base64.b64encode(each).decode() for each in path)]
    return "\n".join(lines).encode() + b"\n\n" + checkpoint


def check_inclusion(proof: bytes, entry: Entry, key: PublicKey) -> Checkpoint:
    """The checkpoint of the log that has the entry.

    Raises:
        ReleaseError: the proof does not show it, or the checkpoint is not signed by the key.
    """
    place, path, checkpoint = _parsed(proof, _INCLUSION, key)
    if root_from_path(leaf_hash(entry.data()), place, checkpoint.size, path) != checkpoint.root:
        raise ProofError(f"the proof is not of {entry.release} as it is here: it does not lead to the signed root")
    return checkpoint


def check_growth(proof: bytes, earlier: Checkpoint, key: PublicKey) -> Checkpoint:
    """The checkpoint of a log that began as the earlier one says.

    Raises:
        ReleaseError: the proof does not show it, or the checkpoint is not signed by the key.
    """
    size, path, checkpoint = _parsed(proof, _CONSISTENCY, key)
    if size != earlier.size or checkpoint.origin != earlier.origin:
        raise ProofError(f"the proof begins with {size} entries; the checkpoint has {earlier.size} of {earlier.origin}")
    check_consistency(earlier.size, earlier.root, checkpoint.size, checkpoint.root, path)
    return checkpoint


def _parsed(proof: bytes, head: str, key: PublicKey) -> tuple[int, list[bytes], Checkpoint]:
    """Index or earlier size, hashes and signed checkpoint."""
    lines, blank, note = proof.partition(b"\n\n")
    if not blank or not lines.startswith(head.encode()):
        raise ProofError("this is not a proof about a log")
    first, *rest = lines[len(head) :].split(b"\n")
    try:
        hashes = [base64.b64decode(line, validate=True) for line in rest]
        number = int(first) if first.isdigit() and len(first) < 19 else -1
    except (ValueError, binascii.Error):
        raise ProofError("the proof is damaged: it holds something that is not a hash") from None
    if number < 0 or str(number).encode() != first or any(len(each) != 32 for each in hashes):
        raise ProofError("the proof is damaged: it holds something that is not a number or a hash")
    return number, hashes, opened_checkpoint(note, key, "the proof's checkpoint")
