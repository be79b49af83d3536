import re
print(re.findall(r"(\w+)@(\w+)\.com", "ann@corp.com, bob@home.com"))
print(re.sub(r"(?P<d>\d+)", lambda m: str(int(m["d"]) * 2), "a1 b22 c333"))
print(re.split(r"[,;]\s*", "a, b;c,d"))
m = re.match(r"(?P<year>\d{4})-(?P<month>\d\d)", "2026-11-29")
print(m.groupdict(), m.span("month"))
print(re.compile(r"^\s*#.*$", re.M).sub("", "x\n# c\ny"))
try:
    re.compile("(")
except re.error as e:
    print(e)
