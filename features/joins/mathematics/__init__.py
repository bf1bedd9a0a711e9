"""Joins: persons and households that agree with each other in every geounit."""
