"""What a version of a release that was made with answers of questions states of them, beside the spec."""
