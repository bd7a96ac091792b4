"""The processes of `feedproxy serve`: one that serves clients, or a supervisor with several workers."""
