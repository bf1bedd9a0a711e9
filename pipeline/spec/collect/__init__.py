"""Reports that were randomised by their senders: the section [collect] of a spec, and what it means."""
