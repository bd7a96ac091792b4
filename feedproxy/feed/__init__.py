"""Feed formats: detection, channel, schedule, self link, redirect documents, and conversion."""
