import csv, glob, io, os, shutil, stat, tempfile, zipfile, tarfile, gzip
from pathlib import Path

with tempfile.TemporaryDirectory() as d:
    root = Path(d)
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "one.txt").write_text("one\ntwo\n")
    (root / "a" / "b" / "two.txt").write_bytes(b"\x00\xff")
    print(sorted(str(p.relative_to(root)) for p in root.rglob("*")))
    print(sorted(os.path.basename(p) for p in glob.glob(d + "/a/*.txt")))
    shutil.copytree(root / "a", root / "copy")
    shutil.move(root / "copy" / "one.txt", root / "moved.txt")
    print((root / "moved.txt").read_text().splitlines(), (root / "copy" / "one.txt").exists())
    os.chmod(root / "moved.txt", 0o640)
    print(oct((root / "moved.txt").stat().st_mode), stat.filemode(os.lstat(d + "/a").st_mode)[0], os.path.getsize(root / "a/b/two.txt"))
    os.symlink("moved.txt", root / "link")
    print(os.readlink(root / "link"), (root / "link").is_symlink(), (root / "link").read_text()[:3])
    os.utime(root / "moved.txt", (1000, 2000.5))
    print(os.stat(root / "moved.txt").st_mtime, os.stat(root / "moved.txt").st_mtime_ns)
    with zipfile.ZipFile(root / "z.zip", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x/y.txt", "z" * 1000)
    with zipfile.ZipFile(root / "z.zip") as z:
        print(z.namelist(), len(z.read("x/y.txt")))
    with tarfile.open(root / "t.tgz", "w:gz") as t:
        t.add(root / "a", "a")
    with tarfile.open(root / "t.tgz") as t:
        print(sorted(t.getnames()))
    with gzip.open(root / "g.gz", "wt") as g:
        g.write("text")
    print(gzip.open(root / "g.gz", "rt").read())
    with open(root / "f", "w+") as f:
        f.write("0123456789")
        f.seek(3)
        print(f.read(2), f.tell())
        f.truncate(4)
    with open(root / "f", "a") as f:
        f.write("END")
    print((root / "f").read_text())
    for what in (lambda: open(root / "none"), lambda: os.mkdir(root / "a"), lambda: os.rmdir(root / "a"), lambda: open(root / "a"), lambda: open(root / "f", "x"), lambda: os.listdir(root / "f")):
        try:
            what()
        except OSError as e:
            print(type(e).__name__, e.strerror)
    shutil.rmtree(root / "a")
    print(sorted(os.listdir(d)))

out = io.StringIO()
w = csv.DictWriter(out, ["name", "n"], lineterminator="\n")
w.writeheader()
w.writerows([{"name": 'a "b", c', "n": 1}, {"name": "d\ne", "n": 2}])
print(out.getvalue())
print(list(csv.reader(io.StringIO(out.getvalue()))))
print(os.path.exists(d))
