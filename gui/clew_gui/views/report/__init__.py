"""The Report tab, and reports as PDF."""
