"""Reports: results in, text out; nothing here computes or asks."""
