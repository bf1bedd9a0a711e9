"""Check a proof of a row of a signed release. This file needs nothing but Python and `cryptography`: copy it anywhere.

    python check_proof.py PROOF PUBLIC_KEY_FILE

It shares no code with what makes proofs. The encodings that it follows are written down in docs/witness.md.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FORMAT = "spinewise proof 1"

_ED25519 = b"\x01"
_ML_DSA_65 = b"\xffspinewise ML-DSA-65\n"
_CONTEXT = b"spinewise signed note"
_NAN = bytes.fromhex("7ff8000000000000")
_LONGEST = 1 << 24


class BadProofError(Exception):
    """The proof does not prove anything; the text says why."""


def check(proof: bytes, public_key: str) -> dict[str, Any]:
    """What a proof proves.

    Args:
        proof: content of a proof file.
        public_key: content of the agency's public key file, from a source that is trusted.

    Returns:
        signer, release, status, table, level, companion, geocode, counts (label -> number) and, where margins are
        published, intervals (label -> low and high end at 90 %, None where they are unknown). Of an answer to a
        question: signer, answer, status, question, table, cells (column -> text).

    Raises:
        BadProofError: it proves nothing.
    """
    try:
        content = json.loads(proof) if len(proof) <= _LONGEST else None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise BadProofError("this is not a proof of the form that is known here")
        return _checked(content, public_key)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, struct.error, OverflowError):
        raise BadProofError("the proof is damaged: it does not have the form of one") from None


def _checked(content: dict[str, Any], public_key: str) -> dict[str, Any]:
    text, signer = _signed_text(content["note"], public_key)
    first, release, status, _, rows, *further = text.removesuffix("\n").split("\n")
    word, tables, root = rows.split(" ")
    is_answer = first == "spinewise.answer/1" and all(line.startswith("combined ") for line in further)
    is_release = first == "spinewise.release/1" and not further
    if not (is_answer or is_release) or word != "rows" or not status.startswith("status "):
        raise BadProofError("what is signed is not the statement of a release or an answer")
    table, row = content["table"], content["row"]
    leaf = _leaf(_cells_bytes(row, table) if is_answer else _row_bytes(row, table))
    found = _climb(leaf, content["row_index"], content["rows"], content["row_path"])
    stated = {**table, "rows": content["rows"], "root": found.hex()}
    data = json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    if _climb(_leaf(data), content["table_index"], int(tables), content["table_path"]).hex() != root:
        raise BadProofError("the row is not in the signed release: it does not lead to the root that was signed")
    if is_answer:
        return {
            "signer": signer,
            "answer": release,
            "status": status.removeprefix("status "),
            "question": table["query"],
            "table": table["table"],
            "cells": dict(zip(table["labels"], row["cells"], strict=True)),
        }
    proved = {
        "signer": signer,
        "release": release,
        "status": status.removeprefix("status "),
        "table": table["table"],
        "level": table["level"],
        "companion": table["universe"],
        "geocode": row["geocode"],
        "counts": dict(zip(table["labels"], row["counts"], strict=True)),
    }
    if table["margins"]:
        proved["intervals"] = dict(zip(table["labels"], zip(row["lows"], row["highs"], strict=True), strict=True))
    return proved


def _leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


def _row_bytes(row: dict[str, Any], table: dict[str, Any]) -> bytes:
    """The row in the one form in which it is hashed."""
    labels, counts = table["labels"], row["counts"]
    ends = (row["lows"], row["highs"]) if table["margins"] else ()
    names = {"file", "labels", "level", "margins", "query", "table", "universe"}
    if set(table) != names or any(len(each) != len(labels) for each in (counts, *ends)):
        raise BadProofError("the row does not have the columns of its table")
    if set(row) != ({"geocode", "counts", "lows", "highs"} if table["margins"] else {"geocode", "counts"}):
        raise BadProofError("the row has more than a row of a table has")
    if any(type(count) is not int for count in counts):
        raise BadProofError("a count is not a whole number")
    if any(end is not None and type(end) not in (int, float) for each in ends for end in each):
        raise BadProofError("the end of an interval is not a number")
    code = row["geocode"].encode()
    encoded = [_NAN if end is None else struct.pack(">d", end) for each in ends for end in each]
    return struct.pack(">I", len(code)) + code + struct.pack(f">{len(counts)}q", *counts) + b"".join(encoded)


def _cells_bytes(row: dict[str, Any], table: dict[str, Any]) -> bytes:
    """The row of an answer's table in the one form in which it is hashed."""
    names = {"file", "labels", "level", "margins", "query", "table", "universe"}
    cells = row["cells"]
    if set(table) != names or set(row) != {"cells"} or len(cells) != len(table["labels"]):
        raise BadProofError("the row does not have the columns of its table")
    if any(type(cell) is not str for cell in cells):
        raise BadProofError("a cell is not text")
    return json.dumps(cells, separators=(",", ":"), ensure_ascii=False).encode()


def _climb(leaf: bytes, index: int, size: int, path: Sequence[str]) -> bytes:
    """The root to which a path leads: the tree splits at the largest power of two below its size (RFC 6962)."""
    if type(index) is not int or type(size) is not int or not 0 <= index < size:
        raise BadProofError("the proof is for a place that is not in its tree")
    sides = []  # from the root down: whether the leaf is in the left part
    while size > 1:
        left = 1 << ((size - 1).bit_length() - 1)
        sides.append(index < left)
        index, size = (index, left) if index < left else (index - left, size - left)
    if len(sides) != len(path):
        raise BadProofError("the proof has not the length that its tree needs")
    found = leaf
    for is_left, sibling in zip(reversed(sides), map(bytes.fromhex, path), strict=True):
        if len(sibling) != 32:
            raise BadProofError("the proof holds something that is not a hash")
        found = hashlib.sha256(b"\x01" + (found + sibling if is_left else sibling + found)).digest()
    return found


def _signed_text(note: str, public_key: str) -> tuple[str, str]:
    """The note's text and the signer, if every algorithm of the public key has signed it."""
    text, blank, lines = note.rpartition("\n\n")
    keys = [line.split("+", 2) for line in public_key.split()]
    if not blank or not keys or len({name for name, _, _ in keys}) != 1:
        raise BadProofError("there is no signature, or no public key")
    text += "\n"
    kinds = set()
    for name, digits, encoded in keys:
        raw = base64.b64decode(encoded, validate=True)
        if hashlib.sha256(f"{name}\n".encode() + raw).digest()[:4].hex() != digits:
            raise BadProofError("the public key is damaged")
        kinds.add(raw[:1])
        found = [line.split(" ")[2] for line in lines.splitlines() if line.startswith(f"— {name} ")]
        signatures = [base64.b64decode(each, validate=True) for each in found]
        own = [each[4:] for each in signatures if each[:4].hex() == digits]
        if not own or not all(_verifies(raw, each, text.encode()) for each in own):
            raise BadProofError(f"the statement is not signed by this key of {name}")
    if _ED25519 not in kinds:
        raise BadProofError("the public key has no Ed25519 key")
    return text, keys[0][0]


def _verifies(raw: bytes, signature: bytes, text: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        if raw.startswith(_ML_DSA_65):
            from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey

            MLDSA65PublicKey.from_public_bytes(raw[len(_ML_DSA_65) :]).verify(signature, text, _CONTEXT)
        elif raw.startswith(_ED25519):
            Ed25519PublicKey.from_public_bytes(raw[1:]).verify(signature, text)
        else:
            raise BadProofError("the public key has an algorithm that is not known here")
    except InvalidSignature:
        return False
    return True


if __name__ == "__main__":
    try:
        proved = check(Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]).read_text("ascii"))
    except BadProofError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
    sys.stdout.write(json.dumps(proved, indent=1, ensure_ascii=False) + "\n")
