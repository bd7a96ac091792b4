"""What a feed says: its kind, its channel, its schedule, its self link, its move or end. Knows no cache."""
