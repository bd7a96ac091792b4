"""Reading and checking the configuration. feedproxy/settings.py declares the options."""
