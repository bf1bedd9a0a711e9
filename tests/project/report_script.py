"""Writes features/report/assets/vega.js, the plotting library that the report carries: `make report-js`."""

from __future__ import annotations

from pathlib import Path

TARGET = Path(__file__).resolve().parents[2] / "features" / "report" / "assets" / "vega.js"


def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, as the installed vl-convert-python has them."""
    import vl_convert

    script = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub asks for a snippet, it does not
    if "</script" in script.lower():
        raise ValueError("the bundle would end its script element")
    return script


if __name__ == "__main__":
    TARGET.write_text(bundle(), encoding="utf-8")
