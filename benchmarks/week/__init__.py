"""The polling week: a simulated week of polls, which measures what a cache saves for origins and readers."""
