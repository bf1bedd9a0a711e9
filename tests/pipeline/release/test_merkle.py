"""The trees are those of RFC 6962: published vectors, a definition written down again, and every forgery tried."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.release.merkle import (
    EMPTY_ROOT,
    LongTree,
    ProofError,
    check_consistency,
    consistency_path,
    inclusion_path,
    leaf_hash,
    root_from_path,
    root_of,
)

# The vectors of Certificate Transparency's own tests (merkletree/merkle_tree_test.cc).
LEAVES = [
    bytes.fromhex(each)
    for each in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
A96 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
A5F = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
A6B = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
ABC = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
ACA = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
AD3 = "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"
A0E = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
HASHES = [leaf_hash(leaf) for leaf in LEAVES]


def many(count: int, kind: str = "leaf") -> list[bytes]:
    return [leaf_hash(f"{kind} {number}".encode()) for number in range(count)]


def tree_of_the_rfc(hashes: list[bytes]) -> bytes:
    """MTH as RFC 6962, 2.1, defines it."""
    if len(hashes) == 1:
        return hashes[0]
    split = 1
    while 2 * split < len(hashes):
        split *= 2
    left, right = tree_of_the_rfc(hashes[:split]), tree_of_the_rfc(hashes[split:])
    return hashlib.sha256(b"\x01" + left + right).digest()


def test_published_roots() -> None:
    assert [root_of(HASHES[: size + 1]).hex() for size in range(8)] == ROOTS
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(("index", "size", "path"), [(0, 8, [A96, A5F, A6B]), (5, 8, [ABC, ACA, AD3]), (0, 1, [])])
def test_published_inclusion_proofs(index: int, size: int, path: list[str]) -> None:
    if (index, size) == (5, 8):
        path = [hashlib.sha256(b"\x00" + LEAVES[4]).hexdigest(), *path[1:]]
        assert path[0] == ABC
    assert [each.hex() for each in inclusion_path(HASHES[:size], index)] == path


@pytest.mark.parametrize(
    ("earlier", "size", "path"), [(1, 8, [A96, A5F, A6B]), (6, 8, [A0E, ACA, AD3]), (2, 5, [A5F, ABC]), (1, 1, [])]
)
def test_published_consistency_proofs(earlier: int, size: int, path: list[str]) -> None:
    assert [each.hex() for each in consistency_path(HASHES[:size], earlier)] == path


def test_every_leaf_of_every_small_tree_is_proved_and_nothing_else_is() -> None:
    for size in range(1, 34):
        hashes = many(size)
        root = root_of(hashes)
        assert root == tree_of_the_rfc(hashes)
        for index in range(size):
            path = inclusion_path(hashes, index)
            assert root_from_path(hashes[index], index, size, path) == root
            for other in set(range(size)) - {index}:
                assert not leads(hashes[index], other, size, path, root)
            assert not leads(leaf_hash(b"another"), index, size, path, root)
            assert not leads(hashes[index], index, size, [*path, root], root)
            assert not path or not leads(hashes[index], index, size, path[:-1], root)


def leads(leaf: bytes, index: int, size: int, path: list[bytes], root: bytes) -> bool:
    try:
        return root_from_path(leaf, index, size, path) == root
    except ProofError:
        return False


def test_an_inner_node_is_no_leaf() -> None:
    """Without the first bytes, two hashes side by side would be a leaf: a forged row of 64 bytes."""
    hashes = many(4)
    inner = root_of(hashes[:2])
    assert leaf_hash(hashes[0] + hashes[1]) != inner
    assert root_of([leaf_hash(hashes[0] + hashes[1]), root_of(hashes[2:])]) != root_of(hashes)


def test_growth_of_every_small_tree_is_proved_and_a_change_is_not() -> None:
    for size in range(1, 26):
        hashes = many(size)
        root = root_of(hashes)
        for earlier in range(size + 1):
            before = root_of(hashes[:earlier])
            path = consistency_path(hashes, earlier)
            check_consistency(earlier, before, size, root, path)
            if earlier:
                other = root_of([leaf_hash(b"other"), *hashes[1:earlier]])
                with pytest.raises(ProofError):
                    check_consistency(earlier, other, size, root, path)
            if 0 < earlier < size:
                with pytest.raises(ProofError):
                    check_consistency(earlier, before, size, root, path[:-1])
                with pytest.raises(ProofError):
                    check_consistency(earlier, before, size, root, [*path, root])
                with pytest.raises(ProofError):
                    check_consistency(earlier, before, size, leaf_hash(b"x"), path)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_changed_path_leads_elsewhere(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 300))
    index = data.draw(st.integers(0, size - 1))
    hashes = many(size)
    path = inclusion_path(hashes, index)
    at, bit = data.draw(st.integers(0, len(path) - 1)), data.draw(st.integers(0, 255))
    changed = bytearray(path[at])
    changed[bit // 8] ^= 1 << bit % 8
    assert root_from_path(hashes[index], index, size, [*path[:at], bytes(changed), *path[at + 1 :]]) != root_of(hashes)


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 8192, 12_289])
def test_a_long_tree_is_the_same_tree(size: int) -> None:
    hashes = many(size)
    for wanted in sorted({0, size // 2, size - 1}):
        tree = LongTree(wanted)
        for start in range(0, size, 1000):
            tree.add(hashes[start : start + 1000])
        root, path = tree.finish()
        assert root == root_of(hashes)
        assert path == inclusion_path(hashes, wanted)


def test_an_empty_table_has_a_root() -> None:
    assert LongTree().finish() == (EMPTY_ROOT, [])
