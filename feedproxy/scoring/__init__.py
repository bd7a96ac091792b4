"""Grades of feed readers: rules, findings, and scores of what their requests show."""
