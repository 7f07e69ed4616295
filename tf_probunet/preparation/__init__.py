"""From raw files to records: one module per source, and one runner for all."""
