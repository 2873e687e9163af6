"""Commands for what is handed in: reports, bundles, their check."""
