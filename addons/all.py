"""All addons as one script: `mitmdump -s addons/all.py`."""

from feedproxy.addons.order import default_addons

addons = default_addons()
