"""A spec with persons and homes to be joined, as text, and joins of every form."""

from __future__ import annotations

from pipeline.spec.release_spec import ReleaseSpec, parse_spec

BASE = """
name = "one"
[privacy]
rho = "1"
[geography]
file = "zones.csv"
column = "zone"
levels = { county = 2, zone = 4 }
[schema.attributes]
age = ["0-17", "18-64", "65+"]
sex = ["f", "m"]
place = ["household", "dorm", "prison"]
role = ["head", "other"]
[schema.recodes.child]
attribute = "age"
groups = { child = ["0-17"], adult = ["18-64", "65+"] }
[schema.recodes.old]
attribute = "age"
groups = { young = ["0-17", "18-64"], old = ["65+"] }
[schema.recodes.housed]
attribute = "place"
groups = { in = ["household"], out = ["dorm", "prison"] }
[strategy]
queries = { detailed = "1" }
levels = { county = "1/2", zone = "1/2" }
[companions.homes]
privacy = { rho = "1" }
strategy = { queries = { detailed = "1" }, levels = { county = "1/2", zone = "1/2" } }
structural_zeros = [ ZEROS ]
[companions.homes.schema.attributes]
size = ["1", "2", "3+"]
head_age = ["18-64", "65+"]
head_sex = ["f", "m"]
children = ["no", "one", "more"]
"""
WHERE = 'companion = "homes"\nwhere = { place = "household" }\n'
SIZE = WHERE + 'size = "size"\nmost = 9\n'
HEAD = WHERE + 'householder = { age = "head_age" }\n'
CHILDREN = WHERE + 'present = { children = ["one", "more"] }\nmembers = { child = "child" }\n'
NO_LONE_CHILD = '{ size = "1", children = ["one", "more"] }'
TABLE = """
companion = "homes"
persons = "child * place"
households = "size * children"
[join.table."child * household"]
"1 * no" = 0
"1 * one" = 0
"1 * more" = 0
"2 * no" = 0
"2 * one" = [1, 1]
"2 * more" = 0
"3+ * no" = 0
"3+ * one" = 1
"3+ * more" = [2]
[join.table."child * dorm"]
"""
ROWS = "".join(f'"{size} * {n}" = 0\n' for size in ("1", "2", "3+") for n in ("no", "one", "more"))


def spec_of(*joins: str, zeros: str = "", more: str = "", base: str = BASE) -> ReleaseSpec:
    """The spec with these joins; `zeros` of homes, and `more` tables before the joins."""
    text = base.replace("ZEROS", zeros) + more + "".join(f"[[join]]\n{join}" for join in joins)
    return parse_spec(text, "r.toml")
