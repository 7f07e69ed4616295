"""From raw files to records: one module per source, one runner for all of them."""
