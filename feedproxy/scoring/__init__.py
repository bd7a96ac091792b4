"""Grades of feed readers. Rules are applied to a reader's requests; violations become findings and lower the grade."""
