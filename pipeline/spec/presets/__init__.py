"""Strategies that come with Spinewise, as TOML; `pipeline.spec.preset` reads them."""
