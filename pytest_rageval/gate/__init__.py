"""The gate: thresholds, and what a score says to them."""
