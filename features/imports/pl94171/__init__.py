"""Import of P.L. 94-171 summary files."""
