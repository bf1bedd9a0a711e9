"""A release from reports that respondents randomised themselves: where its numbers come from, and their errors."""
