"""Spec, schema, queries, records, measurements and releases; users import `spinewise`."""
