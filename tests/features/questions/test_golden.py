"""One answer to each kind of question, under a fixed key on fixed records: stream keys and drawn numbers as literals.

Any change of a stream, of what it is bound to, of a mechanism or of what is counted changes these numbers, and with
them all answers that are asked again or rerun: whoever changes one on purpose raises `_DOMAIN` of
features/questions/confidential.py.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from releases.asked import ask, ledger_of, write_workers

from pipeline.confidential.custody import KeySource
from pipeline.privacy.keys import MasterKey

KEY = bytes(range(7, 39))
UNITS = ('dataset = "workers"', 'dataset = "workers"\nunit = "worker"\nat_most = 2')
TOTAL = ('missing = "0"', 'missing = "0"\nends = "total"')
PURE = ('rho = "1"', 'epsilon = "1"\nframework = "pure"')
CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    "zcdp": (),
    "pure": (PURE,),
    "units": (UNITS,),
    "totals": (UNITS, TOTAL),
}

#: Way of the spec and question -> stream key of each part, and the drawn columns.
GOLDEN: dict[tuple[str, str], tuple[dict[str, str], dict[str, list[int]]]] = {
    ("zcdp", "count by county, sex where age >= 18"): (
        {"count": "eed8a145d1f1216b88d524080b5a9ff1664e08184163e87bf692c8a72335653d"},
        {"count": [3, 1, 9, 20]},
    ),
    ("zcdp", "count by tract having count >= 3"): (
        {"count": "da93462b288f6128ef14dad07e46cf3bf21f0b8191a10905b5b9b7fff72b8761"},
        {"count": [7, 9, 5, 2, 7, 7, 5, 6, 3, 4]},
    ),
    ("zcdp", "sum wages by county"): (
        {"sum": "fc2d0ec404861bb47e74a704b3a3ceb4f40847cdd64d93dec33ef69bdefde677"},
        {"sum": [10093, 9920]},
    ),
    ("zcdp", "mean wages by sex"): (
        {
            "sum": "70cbccc623547bea9a4166efd0bc61ad64ca24ed7768f5bb336fa65a204fa2a0",
            "count": "ac2f9524518469b08aa7d3550ed426882cb9e59dfcf5f84d6fef87024e89a195",
        },
        {"sum": [-257, -457], "count": [33, 33]},
    ),
    ("zcdp", "median wages by county"): (
        {
            "quantile": "07b4cf346a16ffd09f2193ce6e0e7a2c437897352474968acf765544968435c2",
            "windows": "5f55a3ff876a429ffcaf7d79514e309bbd4dc3c0eaa70fd7cc9ffcc706e07aa5",
        },
        {
            "quantile": [309, 357],
            "window1": [5, -42],
            "window2": [104, 73],
            "window3": [95, 87],
            "window4": [131, 8],
            "window5": [11, 5],
            "window6": [20, 31],
            "window7": [37, 3],
            "window8": [23, -33],
            "window9": [19, 46],
            "window10": [-3, -33],
            "window11": [-9, -13],
            "window12": [-16, -14],
            "window13": [-1, 109],
            "window14": [64, 10],
            "window15": [-87, 47],
            "window16": [-28, 13],
            "window17": [11, -55],
            "window18": [155, 101],
            "window19": [79, 28],
            "window20": [-31, -16],
            "window21": [56, 75],
            "window22": [-12, 62],
            "window23": [31, 55],
            "window24": [-45, 36],
            "window25": [-89, -88],
            "window26": [11, 46],
            "window27": [30, 89],
        },
    ),
    ("zcdp", "quantile 1/4 wages"): (
        {
            "quantile": "38827fdae46f973e69ac9f69228d3f665d1d2a9fa93b0422f329123bf5b9e76e",
            "windows": "eaac1e4b16062c8a8abc7b5dd4405e46fd969e953f89baedaee276bfa1c39173",
        },
        {
            "quantile": [150],
            "window1": [67],
            "window2": [36],
            "window3": [46],
            "window4": [41],
            "window5": [15],
            "window6": [69],
            "window7": [127],
            "window8": [85],
            "window9": [26],
            "window10": [22],
            "window11": [2],
            "window12": [128],
            "window13": [30],
            "window14": [78],
            "window15": [28],
            "window16": [-27],
            "window17": [83],
            "window18": [74],
            "window19": [200],
            "window20": [80],
            "window21": [88],
            "window22": [181],
            "window23": [96],
            "window24": [80],
            "window25": [3],
            "window26": [37],
            "window27": [-35],
        },
    ),
    ("zcdp", "max wages by sex"): (
        {
            "quantile": "0aeca7668cd567d817ea3c2add7a86a8bdc7943ccfed854694a99639fd77a7d1",
            "windows": "0b4d1b5dc0051df0866aee3e86684fd766ca51e82e5d6bc450b1e6030b722308",
        },
        {
            "quantile": [249, 308],
            "window1": [-77, 39],
            "window2": [-30, 64],
            "window3": [51, 47],
            "window4": [33, 75],
            "window5": [63, 78],
            "window6": [-55, 113],
            "window7": [-8, 85],
            "window8": [23, -56],
            "window9": [-9, -78],
            "window10": [15, 99],
            "window11": [-10, -29],
            "window12": [99, -45],
            "window13": [-33, 188],
            "window14": [49, -8],
            "window15": [-13, 105],
            "window16": [66, 88],
            "window17": [87, 11],
            "window18": [71, -40],
            "window19": [10, 88],
            "window20": [40, -21],
            "window21": [17, 139],
            "window22": [-10, -92],
            "window23": [71, 2],
            "window24": [24, 94],
            "window25": [-9, 28],
            "window26": [8, 21],
            "window27": [-91, -79],
        },
    ),
    ("zcdp", "min wages by sex"): (
        {
            "quantile": "d2feddb0150d04f2f4b5b912d5f673aa7f2a854650f428936a269df41bfa1dc2",
            "windows": "20748713fa4fca096c7dd6b4c1349c4a1df584d4d95610a6f4522db86c8ff0f6",
        },
        {
            "quantile": [370, 407],
            "window1": [22, 85],
            "window2": [143, 133],
            "window3": [22, 87],
            "window4": [160, 135],
            "window5": [-13, 115],
            "window6": [-42, 146],
            "window7": [26, -2],
            "window8": [-3, 12],
            "window9": [57, 68],
            "window10": [89, -29],
            "window11": [-17, -56],
            "window12": [71, 27],
            "window13": [24, -20],
            "window14": [-4, -59],
            "window15": [49, 122],
            "window16": [38, 23],
            "window17": [-16, 38],
            "window18": [-69, 70],
            "window19": [-14, 18],
            "window20": [132, 95],
            "window21": [-86, 87],
            "window22": [111, 58],
            "window23": [48, 23],
            "window24": [94, -10],
            "window25": [-37, -10],
            "window26": [-29, -87],
            "window27": [-9, -45],
        },
    ),
    ("zcdp", "clip wages among 20000, 40000, 60000 above 1/10"): (
        {
            "clip": "3651a6756624c7d13cd6a182040e5c135b52a89b5e63494b931bc0df32a9e68c",
            "windows": "d3ae2a3d4f2eba8080bea16d7ecb3b916ce1a4870206d770e8a48aeb45f7804c",
        },
        {
            "clip": [2],
            "window1": [185],
            "window2": [408],
            "window3": [205],
            "window4": [168],
            "window5": [50],
            "window6": [78],
            "window7": [160],
            "window8": [93],
            "window9": [15],
            "window10": [-30],
            "window11": [-2],
        },
    ),
    ("zcdp", "most common 2 age by county"): (
        {"count": "c2e87e150ec839132e21a325d098ebabfbfa4d51f366ce317480d468ea04352c"},
        {"count": [32, 3, 2, 3, 30, 0]},
    ),
    ("pure", "count by county"): (
        {"count": "d8166bf055f9a560253a355b5bfa06c4558df2858218684c3d7eb3fc499f4b51"},
        {"count": [30, 29]},
    ),
    ("pure", "median wages by sex"): (
        {
            "quantile": "6cd30ac5632738fb6447952c9919df8144a419ca58f3ed6470a2679a6d328406",
            "windows": "478a368f7b672e9cead35f66bef7f163c2cf7f7bbc550d2bf979dd61b61a97e3",
        },
        {
            "quantile": [435, 200],
            "window1": [-8, 0],
            "window2": [15, -10],
            "window3": [8, -5],
            "window4": [-13, -59],
            "window5": [-6, 12],
            "window6": [30, -29],
            "window7": [42, -160],
            "window8": [-7, 9],
            "window9": [17, 52],
            "window10": [-126, 55],
            "window11": [4, 55],
            "window12": [-20, 9],
            "window13": [19, 4],
            "window14": [0, -24],
            "window15": [9, 2],
            "window16": [-37, 30],
            "window17": [-76, 5],
            "window18": [18, 41],
            "window19": [29, -66],
            "window20": [17, 25],
        },
    ),
    ("units", "count by county"): (
        {"count": "18206959d78fe2b12179ee630f6e1edf7f576c6e4b356450da18853ad8e3fed4"},
        {"count": [28, 25]},
    ),
    ("units", "count units by county"): (
        {"count": "75fb9db3e5b32fdf5328490d9606fd29976292155741faa97e3617f97ee7f309"},
        {"count": [23, 24]},
    ),
    ("totals", "sum wages by county"): (
        {"sum": "97255512567fe22446a341c208e4cde686555c4c835e7d345cf2f0f94f15f3bc"},
        {"sum": [4492, 6871]},
    ),
    ("totals", "mean wages by sex"): (
        {
            "sum": "70bfa1422c0b9cd15ac3f40cd035fe9a898eb9c12e22b5a3716532d23c4ef724",
            "count": "ba225910da1707a80361dd0abfbaa0db84313e63380ee5641da506ab4ce38aa5",
        },
        {"sum": [5175, 5142], "count": [27, 26]},
    ),
    ("units", "count units by records_per_unit where age != 0-17"): (
        {"count": "2a89490577b24dbf5df1d7ae7729e155ab5999c4a297adc012bca8fd41df35d6"},
        {"count": [17, 7, -2, 2, 1, 0, -1, 4, -1, 2, 1, 0, 3, -2, 2, -1, 2, 1, 0, -3]},
    ),
    ("pure", "sum wages by county"): (
        {"sum": "7578a1d9c433f8b9072ed5feab50b1d7da53b44019d31719ceb8cf5d092b465c"},
        {"sum": [7189, 13130]},
    ),
    ("pure", "clip wages among 20000, 40000, 60000 above 1/10"): (
        {
            "clip": "c095cff93e547e7ba31f4ad056a7e0de9296c186d99042ed04704e324bb79831",
            "windows": "da5f794324fd3a042598d7864ea49855f2a133ddc97d198e4e254e1cd1681701",
        },
        {"clip": [2], "window1": [-17], "window2": [75], "window3": [12], "window4": [-14]},
    ),
    ("pure", "max wages by sex"): (
        {
            "quantile": "d3877cb91110f35745aa9bec0a98495e4d48e5052544b33ce20e958a6aa3cb4e",
            "windows": "0f52411bc7358882097d59629c59fdd8976f0b95a946242c280a2780fe108448",
        },
        {
            "quantile": [50, 52],
            "window1": [1, -23],
            "window2": [7, 36],
            "window3": [106, 12],
            "window4": [32, -50],
            "window5": [-30, 58],
            "window6": [-35, -40],
            "window7": [-42, -10],
            "window8": [141, -3],
            "window9": [-11, 175],
            "window10": [32, -26],
            "window11": [63, 32],
            "window12": [62, 69],
            "window13": [28, 60],
            "window14": [-4, -48],
            "window15": [3, 96],
            "window16": [2, -31],
            "window17": [-21, -10],
            "window18": [-18, -5],
            "window19": [-39, 9],
            "window20": [-6, -87],
        },
    ),
    ("units", "sum wages by county"): (
        {"sum": "3b4b562c2f6758c610f0cbb2356f58f5d7d356e9e5e083d86c83747f22937f78"},
        {"sum": [2940, 9837]},
    ),
}


def fixed_workers(folder: Path, way: str) -> Path:
    """Sixty records by arithmetic."""
    spec = write_workers(folder, *CHANGES[way], n=2)
    rows = [
        {
            "area": f"{'AB'[i % 2]}{i % 5 + 1:02d}",
            "age": ("0-17", "18-64", "18-64", "65+")[i * i % 4],
            "sex": "fm"[i // 3 % 2],
            "pay": 1000 * (i * 37 % 61),
            "shift": ("day", "night")[i % 3 == 0],
            "worker": f"w{i * 7 % 23}",
        }
        for i in range(60)
    ]
    pd.DataFrame(rows).to_csv(folder / "workers.csv", index=False)
    return spec


def drawn(folder: Path, way: str, text: str, patch: pytest.MonkeyPatch) -> tuple[dict[str, str], dict[str, list[int]]]:
    spec, streams = fixed_workers(folder, way), {}
    MasterKey(KEY).write(folder / "key")
    made = MasterKey.stream_key

    def recorded(self: MasterKey, context: Sequence[str | bytes], level: str, query: str) -> bytes:
        streams[query] = made(self, context, level, query).hex()
        return bytes.fromhex(streams[query])

    patch.setattr(MasterKey, "stream_key", recorded)
    pure = way == "pure"
    with ledger_of(folder, framework="pure" if pure else "zcdp"):
        root = ask(
            spec,
            text,
            None if pure else "1/4",
            epsilon="1" if pure else None,
            key=KeySource(folder / "key"),
            name="golden",
        )
    with (root / "public" / "measurements.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    numbers = [name for name in rows[0] if name in streams or name.startswith("window")]
    return streams, {name: [int(row[name]) for row in rows] for name in numbers}


@pytest.mark.parametrize(("way", "text"), GOLDEN, ids=[f"{way}: {text}" for way, text in GOLDEN])
def test_streams_and_answers_are_those_that_they_were(
    way: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert drawn(tmp_path, way, text, monkeypatch) == GOLDEN[way, text]


def test_every_statistic_is_golden() -> None:
    from pipeline.questions.text import STATISTICS

    asked = {name for name in STATISTICS for _, text in GOLDEN if text == name or text.startswith(f"{name} ")}
    assert asked == set(STATISTICS)
