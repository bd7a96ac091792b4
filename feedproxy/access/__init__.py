"""Who may read what through us, and with what credentials we read for whom (seed 003, Feed Authentication)."""
