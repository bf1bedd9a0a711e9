"""Sums and means of an amount, such as wages, and how many records its clip cuts off: companions of a spec."""
