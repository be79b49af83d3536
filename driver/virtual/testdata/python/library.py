import argparse, base64, bisect, collections, contextlib, copy, datetime, decimal, difflib, fractions, hashlib, heapq, hmac, io, itertools, math, operator, pprint, random, sqlite3, statistics, string, struct, textwrap, urllib.parse, uuid, zlib
import xml.etree.ElementTree as ET
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

print(collections.Counter("mississippi").most_common(2), collections.deque([1, 2, 3], maxlen=2))
print(list(itertools.combinations("abc", 2)), list(itertools.accumulate([1, 2, 3], operator.mul)), [list(g) for _, g in itertools.groupby("aabc")])
when = datetime.datetime(2026, 2, 28, 23, 30, tzinfo=datetime.timezone.utc)
print((when + datetime.timedelta(hours=1)).isoformat(), when.strftime("%A %d %B %Y %j"), datetime.date.fromisoformat("2024-02-29").isocalendar())
print(datetime.datetime.strptime("03/Nov/2026", "%d/%b/%Y"))
print(textwrap.fill("the quick brown fox jumps over the lazy dog", 20), textwrap.dedent("  a\n    b"))
p = argparse.ArgumentParser(prog="tool", description="A tool.")
p.add_argument("name")
p.add_argument("-n", "--count", type=int, default=1, help="how often")
p.add_argument("--flag", action="store_true")
print(p.parse_args(["x", "-n", "3", "--flag"]))
with contextlib.redirect_stderr(io.StringIO()) as err:
    try:
        p.parse_args(["-n", "z", "x"])
    except SystemExit as e:
        print(e.code)
print(err.getvalue())
print(hashlib.sha256(b"a").hexdigest(), hashlib.md5(b"").hexdigest(), hmac.new(b"k", b"m", "sha1").hexdigest(), zlib.crc32(b"abc"))
print(base64.b64encode(bytes(range(8))), struct.pack("<IHb", 1, 2, -3), struct.unpack(">d", struct.pack(">d", 1.5)))
print(decimal.Decimal("0.1") + decimal.Decimal("0.2"), fractions.Fraction(1, 3) + fractions.Fraction(1, 6), statistics.mean([1, 2, 4]), math.isqrt(10 ** 20), round(math.sin(1), 12))
random.seed(7)
print([random.randint(0, 99) for _ in range(5)], random.sample(range(50), 3), random.random())
print(uuid.uuid5(uuid.NAMESPACE_DNS, "example.com"), urllib.parse.urlencode({"a b": "c&d"}), urllib.parse.urlparse("https://u@h:8/p?q=1#f").port)
print("".join(difflib.unified_diff(["a\n", "b\n"], ["a\n", "c\n"])))
print(bisect.bisect([1, 3, 5], 3), heapq.nsmallest(2, [5, 1, 4]), string.Template("$a").substitute(a=1), copy.deepcopy({"a": [1]}))
tree = ET.fromstring("<r><i n='1'>a</i><i n='2'>b</i></r>")
print([(i.get("n"), i.text) for i in tree.iter("i")], ET.tostring(tree).decode())
db = sqlite3.connect(":memory:")
db.execute("create table t (a, b)")
db.executemany("insert into t values (?, ?)", [(1, "x"), (2, "y")])
print(db.execute("select sum(a), group_concat(b) from t").fetchall())
pprint.pprint({"key": list(range(30)), "other": {"nested": "x" * 60}})
print(f"{3.14159:.2f} {42:>6} {255:#x} {1234567:,} {'mid':^9}|", 2 ** 100, 7 // -2, -7 % 3, 0.1 + 0.2, 1e22)
print("straße".upper(), "ÀÉ".casefold(), "naïve".encode(), "\N{SNOWMAN}", sorted("bÄa"))
