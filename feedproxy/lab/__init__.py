"""For people who write readers: recorded traffic, virtual time, origins that misbehave on purpose."""
