"""Courses that a teacher prepares in one file, and the folders in which a class meets. No Qt here."""
