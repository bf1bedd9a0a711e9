"""Strategies that come with Spinewise, as TOML; `pipeline.preset` reads them."""
