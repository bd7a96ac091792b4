"""Subscriber counts of feeds: *direct readers*, counted by their own requests, and subscribers that fetchers claim."""
