"""From mechanisms to privacy statements."""
