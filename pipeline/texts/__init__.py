"""The report's texts in several languages."""
