"""The lab tests feed readers.

It records traffic, replays it in virtual time, and injects faults into an origin's responses.
"""
