"""What all HTML pages have in common: the report, revisions, comparisons, audits, plans, the agency's own."""
