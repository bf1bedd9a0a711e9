"""Plans of a release: its noise, errors and cost, and the best division of a budget, before anything is spent."""
