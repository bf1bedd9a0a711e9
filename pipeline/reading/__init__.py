"""Using a finished release: tables, sums of any cells over any areas, and the margins of error of those sums."""
