"""The release as a dataset of catalogues: schema.org and DCAT-AP in one block of JSON-LD, which stands in the report.

Search engines read schema.org (https://schema.org/Dataset), data portals DCAT (https://www.w3.org/TR/vocab-dcat-3/, in
Europe the profile DCAT-AP 3). Its context is in the block: no reader has to fetch anything to understand it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.metadata.contents import DataFile
from pipeline.metadata.datapackage import MEDIA, contributor
from pipeline.metadata.facts import is_address, licence_of
from pipeline.model.about import About

CONTEXT = {
    "@vocab": "https://schema.org/",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_MEDIA_TYPES = "https://www.iana.org/assignments/media-types/"


def dataset(name: str, about: About, description: str, files: Sequence[tuple[DataFile, str]]) -> dict[str, Any]:
    """The block.

    Args:
        name: of the release.
        about: what it says of itself.
        description: of what it is, in a sentence or two.
        files: what can be downloaded, each with its address from the page.
    """
    title, text = about.title or name, "\n\n".join([description, *about.notes])
    found: dict[str, Any] = {
        "@context": CONTEXT,
        "@id": "",
        "@type": ["Dataset", "dcat:Dataset"],
        "name": title,
        "description": text,
        "dct:title": title,
        "dct:description": text,
        "dct:identifier": name,
        "identifier": name,
        "isAccessibleForFree": True,
        "measurementTechnique": "Differential privacy",
        "variableMeasured": list(dict.fromkeys(_variables(file for file, _ in files))),
        "distribution": [_distribution(file, address) for file, address in files],
        "dcat:distribution": [{"@id": address} for _, address in files],
    }
    return found | _publisher(about) | _terms(about)


def _publisher(about: About) -> dict[str, Any]:
    """Who publishes it, and whom readers may ask."""
    found: dict[str, Any] = {}
    if about.publisher:
        agent = {"@type": ["Organization", "foaf:Agent"], "name": about.publisher, "foaf:name": about.publisher}
        found |= {"publisher": agent, "creator": agent, "dct:publisher": agent}
    if about.contact:
        point: dict[str, Any] = {"@type": "vcard:Kind", "vcard:fn": about.publisher or about.contact}
        reached = contributor(about)
        if "email" in reached:
            point["vcard:hasEmail"] = {"@id": f"mailto:{reached['email']}"}
        elif "path" in reached:
            point["vcard:hasURL"] = {"@id": reached["path"]}
        else:
            point["vcard:note"] = about.contact
        found["dcat:contactPoint"] = point
    return found


def _terms(about: About) -> dict[str, Any]:
    """Terms of use, date and citation."""
    found: dict[str, Any] = {}
    if licence := licence_of(about.licence):
        address = licence.address if is_address(licence.address) else ""
        found |= {"license": address or licence.text}
        found |= {"dct:license": {"@id": address}} if address else {"dct:rights": licence.text}
    if days := about.days:
        first, last = ({"@type": "xsd:date", "@value": day} for day in days)
        period = {"@type": "dct:PeriodOfTime", "dcat:startDate": first, "dcat:endDate": last}
        found |= {"temporalCoverage": "/".join(dict.fromkeys(days)), "dct:temporal": period}
    if about.publication_date:
        found |= {"datePublished": about.publication_date}
        found["dct:issued"] = {"@type": "xsd:date", "@value": about.publication_date}
    if about.version:
        found |= {"version": about.version, "dcat:version": about.version}
    if about.citation:
        found |= {"creditText": about.citation, "dct:bibliographicCitation": about.citation}
    if about.definitions:
        terms = [{"@type": "DefinedTerm", "name": key, "description": text} for key, text in about.definitions.items()]
        found["about"] = terms
    return found


def _distribution(file: DataFile, address: str) -> Mapping[str, Any]:
    media = MEDIA[address.rpartition(".")[2]]
    return {
        "@id": address,
        "@type": ["DataDownload", "dcat:Distribution"],
        "name": file.title,
        "contentUrl": {"@id": address},
        "encodingFormat": media,
        "dct:title": file.title,
        "dcat:accessURL": {"@id": address},
        "dcat:downloadURL": {"@id": address},
        "dcat:mediaType": {"@id": _MEDIA_TYPES + media},
    }


def _variables(files: Iterable[DataFile]) -> Iterable[str]:
    """The terms by which tables count, in words."""
    return (axis.label for file in files for axis in file.axes)
