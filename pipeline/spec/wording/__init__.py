"""The words of a release for people: names of areas, labels, and who publishes it."""
