"""Questions on the records: asked, charged to a ledger, answered with noise."""
