"""What a spec says of questions on the records."""
