"""The confidential records: the section [input] of a spec, and what in it does not fit the schema."""
