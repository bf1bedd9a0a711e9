"""What all HTML pages have in common: the report, comparisons of releases, audits, plans."""
