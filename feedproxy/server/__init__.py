"""Where feedproxy meets mitmproxy's inner names: everything here is checked against them at start."""
