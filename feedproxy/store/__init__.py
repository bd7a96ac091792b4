"""Where stored responses live: memory over disk."""
