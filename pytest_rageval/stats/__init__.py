"""Statistics over per-example scores: numbers in, numbers out."""
