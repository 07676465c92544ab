"""The discrepancies, the default among them, and whether the Stein identity holds for them."""
