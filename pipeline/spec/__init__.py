"""The release spec: TOML to model."""
