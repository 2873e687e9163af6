"""Makes what a student hands in: a report from the journals, a bundle that a teacher can check, and the table of a
class."""
