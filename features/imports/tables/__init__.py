"""Import of tables of any office."""
