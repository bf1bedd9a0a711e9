"""Everything that sees records, true counts or the master key, outside pipeline.privacy and pipeline.records."""
