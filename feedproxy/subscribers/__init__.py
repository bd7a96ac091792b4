"""Who reads: subscriber counts claimed and seen."""
