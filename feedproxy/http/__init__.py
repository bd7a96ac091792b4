"""HTTP as it is written on the wire: fields, dates, directives, validators (RFC 9110, 9111, 9211)."""
