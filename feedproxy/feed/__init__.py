"""Feed formats: detection, channel, schedule, self link, redirect documents, conversion. Knows no cache."""
