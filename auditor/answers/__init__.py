"""The second program's audit of an answer to a question: kept files, costs, caps, noise and choices, the table."""
