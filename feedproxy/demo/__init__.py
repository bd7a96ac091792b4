"""A week of feeds and their readers, played twice: straight to the origins, and through feedproxy."""
