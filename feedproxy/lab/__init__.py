"""The lab tests feed readers: it records traffic, replays it in virtual time, and injects faults of origins."""
