"""HTTP messages as values: fields, dates, directives and validators.  RFC 9110, 9111, 9211"""
