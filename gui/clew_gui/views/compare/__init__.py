"""The Compare tab: runs beside each other."""
