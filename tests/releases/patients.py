"""A small town of persons, the households that they are joined with, and patients with several visits each."""

from __future__ import annotations

from pathlib import Path

from releases.homes import write_homes

#: Records of a patient that are counted; of some there are more.
VISITS = 3

_VISITS = f"""
[companions.visits]
privacy = {{ rho = "1", unit = "patient", at_most = {VISITS} }}
schema.attributes = {{ reason = ["fall", "fever"] }}
strategy = {{ queries = {{ detailed = "1" }}, levels = {{ county = "1/2", tract = "0", block = "1/2" }} }}
input = {{ file = "visits.csv", form = "microdata", geocode = "block" }}

[[join]]
companion = "homes"
where = {{ residence = "household" }}
size = "size"
"""


def write_patients(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the files and the spec; `changes` are texts of the spec of homes and what stands in their place."""
    before = '[[join]]\ncompanion = "homes"\nwhere = { residence = "household" }\nsize = "size"\n'
    spec = write_homes(folder, (before, _VISITS), ("replicates = 2", "margins = false"), *changes)
    visits = [
        f"A{tract:02d}{1 + patient % 4:02d},{('fall', 'fever')[(patient + tract + number) % 2]},p{patient}\n"
        for patient in range(30)
        for tract in range(1, 2 + patient % 3)
        for number in range(2)
    ]
    (folder / "visits.csv").write_text("block,reason,patient\n" + "".join(visits), encoding="utf-8")
    return spec
