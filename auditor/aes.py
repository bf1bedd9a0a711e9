"""AES-256 in plain Python (FIPS 197), one block at a time: slow, and shared with nothing else.

The program encrypts with a library; here the S-box is computed from the field GF(2^8), so that neither the library nor
its use is taken on trust.
"""

from __future__ import annotations

from typing import Final

KEY_BYTES: Final = 32
_ROUNDS: Final = 14


def _doubled(a: int) -> int:
    """2 a in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1."""
    return (a << 1) ^ (0x11B if a & 0x80 else 0)


def _substitution() -> bytes:
    """The S-box: the inverse in GF(2^8), then an affine map."""
    powers = [1]
    for _ in range(254):
        powers.append(_doubled(powers[-1]) ^ powers[-1])  # of the generator 3
    inverse = {powers[i]: powers[-i % 255] for i in range(255)}
    box = []
    for value in range(256):
        x = inverse.get(value, 0)
        for turn in range(1, 5):
            b = inverse.get(value, 0)
            x ^= (b << turn | b >> (8 - turn)) & 0xFF
        box.append(x ^ 0x63)
    return bytes(box)


_S: Final = _substitution()
#: What one byte of the state adds to its column: SubBytes and MixColumns at once.
_T: Final = [[_doubled(s) << 24 | s << 16 | s << 8 | _doubled(s) ^ s for s in _S]]
for _ in range(3):
    _T.append([t >> 8 | (t & 0xFF) << 24 for t in _T[-1]])


def _sub_word(word: int) -> int:
    return _S[word >> 24] << 24 | _S[word >> 16 & 255] << 16 | _S[word >> 8 & 255] << 8 | _S[word & 255]


class Aes256:
    """The block cipher under one key.

    >>> Aes256(bytes(range(32))).block(bytes.fromhex("00112233445566778899aabbccddeeff")).hex()
    '8ea2b7ca516745bfeafc49904b496089'
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"AES-256: found a key of {len(key)} bytes; {KEY_BYTES} are needed")
        words = [int.from_bytes(key[i : i + 4], "big") for i in range(0, KEY_BYTES, 4)]
        constant = 1
        for i in range(8, 4 * (_ROUNDS + 1)):
            last = words[-1]
            if i % 8 == 0:
                last = _sub_word((last << 8 | last >> 24) & 0xFFFFFFFF) ^ constant << 24
                constant = _doubled(constant)
            elif i % 8 == 4:
                last = _sub_word(last)
            words.append(words[i - 8] ^ last)
        self._round_keys = words

    def block(self, plain: bytes) -> bytes:
        """The encryption of 16 bytes."""
        keys = self._round_keys
        state = [int.from_bytes(plain[4 * i : 4 * i + 4], "big") ^ keys[i] for i in range(4)]
        for first in range(4, 4 * _ROUNDS, 4):
            state = [
                _T[0][state[i] >> 24]
                ^ _T[1][state[(i + 1) % 4] >> 16 & 255]
                ^ _T[2][state[(i + 2) % 4] >> 8 & 255]
                ^ _T[3][state[(i + 3) % 4] & 255]
                ^ keys[first + i]
                for i in range(4)
            ]
        shifted = (
            _S[state[i] >> 24] << 24
            | _S[state[(i + 1) % 4] >> 16 & 255] << 16
            | _S[state[(i + 2) % 4] >> 8 & 255] << 8
            | _S[state[(i + 3) % 4] & 255]
            for i in range(4)
        )
        return b"".join((word ^ keys[4 * _ROUNDS + i]).to_bytes(4, "big") for i, word in enumerate(shifted))
