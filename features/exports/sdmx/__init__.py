"""A release in SDMX 3.0: the structure of every table as SDMX-ML, its numbers as SDMX-CSV 2.0."""
