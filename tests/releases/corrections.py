"""Which texts of a release can be corrected: the whole list, written by hand."""

from __future__ import annotations

#: A correction of every key that can be corrected, of the town: place in its spec -> another text.
TEXTS: dict[str, str] = {
    "report.title": '"The town"',
    "report.publisher": '"Office of the town"',
    "report.language": '"es"',
    "report.reference_date": "2031-04-01",
    "report.publication_date": "2032-04-01",
    "report.version": '"2, corrected"',
    "report.next_release": '"in 2041"',
    "report.contact": '"town@example.org"',
    "report.licence": '"CC0-1.0"',
    "report.citation": '"Office of the town (2032)"',
    "report.software_url": '"https://example.org"',
    "report.notes": '["Read this."]',
    "report.definitions": '{ dorm = "A house of students." }',
    "geography.labels": '{ county = "County", tract = { en = "Tract", es = "Sección" } }',
    "schema.labels.records": '"residents"',
    "schema.labels.attributes": '{ age = "Age group" }',
    "schema.labels.values": '{ sex = { f = "women", m = "men" } }',
    "schema.labels.tables": '{ sex = "Women and men" }',
    "companions.units.schema.labels.records": '"dwellings"',
    "companions.units.schema.labels.attributes": '{ status = "Use" }',
    "companions.units.schema.labels.values": '{ status = { vacant = "empty" } }',
    "companions.units.schema.labels.tables": '{ status = "Dwellings" }',
}
