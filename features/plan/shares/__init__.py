"""What a plan foretells of shares from public counts, given a guess of how far areas are from them."""
