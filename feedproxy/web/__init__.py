"""Templates, style sheets and script of the HTML pages."""
