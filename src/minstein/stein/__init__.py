"""The Stein operator at one point: scores, diffusions, matrix fields and divergences."""
