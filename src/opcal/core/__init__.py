"""The mathematics: plain arrays in, plain arrays out. NumPy and SciPy only."""
