"""The texts of pages in several languages, and their numbers."""
