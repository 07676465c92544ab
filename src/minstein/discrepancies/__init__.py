"""The discrepancies with their objectives, the default one, and checks of the Stein identity."""
