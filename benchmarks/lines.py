"""Response fields that many origins have in common, for stores with many feeds."""

COMMON = (
    ("Server", "nginx/1.18.0 (Ubuntu)"),
    ("Content-Type", "application/rss+xml; charset=UTF-8"),
    ("Vary", "Accept-Encoding, Cookie"),
    ("Cache-Control", "max-age=300, must-revalidate"),
    ("X-Powered-By", "PHP/8.1.2"),
    ("Strict-Transport-Security", "max-age=31536000; includeSubDomains"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "SAMEORIGIN"),
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
    ("Permissions-Policy", "interest-cohort=()"),
    ("Alt-Svc", 'h3=":443"; ma=86400'),
    ("X-Cache", "HIT"),
)
