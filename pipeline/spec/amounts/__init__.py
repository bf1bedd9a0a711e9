"""What a spec says of amounts: companions whose records count more than one."""
