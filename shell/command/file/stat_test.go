package file_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestStat(t *testing.T) {
	tree := []string{"f=hello", "0600 g=", "4755 su=1", "d/s/a=1", "1777 t/", "l->f", "bad->no", "q'uote=1", "sp ace=1", "new\nline=2"}
	cases := each("stat", tree, "-c %n f g d", "-c %a_%A f su d t l", "-c '%s %F' f g d l", "-c '%h %u %g %U %G' f d", "-c %N f l bad sp\\ ace", "-c %N \"q'uote\" 'sp ace'", "--printf '%n\\t%s\\n' f g", "--printf 'a\\x41\\101\\e\\\\\\q%%\\n' f", "-c '%Y %y' f g", "-c '%.3Y|%.0Y|%12Y|%-12Y|' f", "-c '%10s|%-10s|%010s|%+s|%#a|%5a|%.4a' f", "-c '%20n|%-20n|%.1n' f", "-c '%f %#f' f d l", "-c '%t %T %r %R' f", "-c %m f", "-c '%B %o %b' f", "-c '%' f", "-c %q f", "-c '%5' f", "-L -c %F l d", "-c %F l", "nofile", "-c %n nofile f", "", "-L bad", "-c ''  f", "--printf '' f", "--format=%n f", "-c '%n\\n' f", "--printf=%n f", "-c %n f f/", "-fc %n nofile", "-c %04a f", "-c %10.10A f", "-c %Hr,%Lr f", "-c '%x' f", "--terse --format=%n f", "--cached=never -c %n f", "-c $'a\\tb' f")
	commandtest.Compare(t, cases)
}

func TestStatDefaultForm(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.WriteFile("f", "hello")
	got := s.Exec("", "stat", "f")
	lines := strings.Split(got.Stdout, "\n")
	if len(lines) != 9 || lines[0] != "  File: f" || lines[1] != "  Size: 5         \tBlocks: 8          IO Block: 4096   regular file" ||
		!strings.HasSuffix(lines[2], "Links: 1") || lines[3] != "Access: (0644/-rw-r--r--)  Uid: (    0/    root)   Gid: (    0/    root)" || !strings.HasPrefix(lines[7], " Birth: 2") {
		t.Errorf("stat f:\n%s", got.Stdout)
	}
}

func TestTouch(t *testing.T) {
	tree := []string{"f=hello", "d/", "l->f", "bad->no"}
	cases := each("touch", tree, "-d '2020-01-02 03:04:05' f n", "-d @1000000000 n", "-t 202001020304.05 f n", "-t 2001020304 n", "-t 9901020304 n", "-t 13010304 n", "-t x n", "-r f n", "-d '1 day' -r f n", "-d 2020-01-01T00:00:00Z l", "-c n", "-c no/n", "no/n", "d/", "n/", "", "-d nonsense n", "-d 2020-01-01 -t 01010000 n", "-r nofile n", "-a -d 2020-01-01 f", "-m -d 2020-01-01 f", "--time=atime -d 2020-01-01 f", "--time=mtime -d 2020-01-01 f", "--time=x f", "-d 2020-01-01 bad", "-h -d 2020-01-01 l", "f/x", "-cd 2020-01-01 f n", "--date=2020-02-03 f", "-d '2020-01-01 12:00:00.5' f", "-f -d 2020-01-01 f", "-t 202002300000 n", "-d '' f -c nofile -r f")
	for i := range cases {
		cases[i].Times = true
	}
	commandtest.Compare(t, cases)
	commandtest.Compare(t, each("touch", tree, "n m", "-t 01020304 n -c")) // whose times depend on the day
}

func TestDu(t *testing.T) {
	tree := []string{"d/a=1234567", "d/s/b=" + strings.Repeat("x", 9000), "d/s/c=1", "e/", "f=12", "l->d/s/b", "d/.h=1", "x.o=1", "d/y.o=2"}
	cases := each("du", tree, "f", "d/s", "-a d/s", "-s d", "-sh d", "-sb f", "-c d/s f", "-h d/s", "-d 0 d", "-d 1 d", "--max-depth=1 d", "-k d/s", "-m d/s", "-b f", "-ab d/s", "-B 512 d/s", "-BM d/s", "-S d", "-0 d/s", "-L l", "-D l", "l", "nofile", "nofile f", "--exclude=s d", "--exclude='*.o' -a d", "-a --exclude='d/s/b' d", "-as d", "-s -d 1 d", "-d x d", "-B x d", "--inodes d", "--inodes -s d", "-t 8K d", "-t -8K d", "-h --apparent-size d/s/b", "--si d/s/b", "-l d/s", "f f", "-c e f", "--time-style=x f", "-t x f", "-d -1 d", "-sS d", "-x f", "-P l", "e", "-a e", "-ch f e", "--total -s d e", "-X nofile d", "--block-size=1K f", "-hs nofile", "--time=x f", "--time -s f --time-style=+%Y")
	for i := range cases {
		cases[i].Mixed = true
	}
	commandtest.Compare(t, append(cases, commandtest.Case{Run: "ln f f2\ndu f f2\ndu -l f f2\ndu -c f f2", Tree: tree}))
}

func TestDf(t *testing.T) {
	s := commandtest.New(t, "/w")
	for _, c := range []struct{ args, want string }{
		{"df", "Filesystem     1K-blocks  Used Available Use% Mounted on\natoll             524288"},
		{"df -h", "Filesystem      Size  Used Avail Use% Mounted on\natoll           512M"},
		{"df -i", "Filesystem     Inodes IUsed IFree IUse% Mounted on\natoll          100000"},
		{"df -T .", "Filesystem     Type 1K-blocks  Used Available Use% Mounted on\natoll          vfs"},
		{"df --output=target,size -BM", "Mounted on 1M-blocks\n/               512M\n"},
		{"df -P", "Filesystem     1024-blocks  Used Available Capacity Mounted on\n"},
	} {
		if got := s.Exec("", commandtest.SplitWords(c.args)...); !strings.HasPrefix(got.Stdout, c.want) || got.Code != 0 {
			t.Errorf("%s: %+v", c.args, got)
		}
	}
	if got := s.Exec("", "df", "nofile"); got.Code != 1 || got.Stderr != "df: nofile: No such file or directory\n" {
		t.Errorf("%+v", got)
	}
}

func TestTree(t *testing.T) {
	s := commandtest.New(t, "/w")
	commandtest.MakeTree(t, s.FS, "/w", []string{"a/b/c.txt=1", "a/d.go=22", ".h=1", "e/", "l->a", "z.txt=333"})
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"tree", ".\n├── a\n│   ├── b\n│   │   └── c.txt\n│   └── d.go\n├── e\n├── l -> a\n└── z.txt\n\n5 directories, 3 files\n", 0},
		{"tree -L 1 -a", ".\n├── .h\n├── a\n├── e\n├── l -> a\n└── z.txt\n\n4 directories, 2 files\n", 0},
		{"tree -d a", "a\n└── b\n\n2 directories\n", 0},
		{"tree -P '*.go' --prune a", "a\n└── d.go\n\n1 directory, 1 file\n", 0},
		{"tree -I 'a|l' --noreport", ".\n├── e\n└── z.txt\n", 0},
		{"tree -fi a --noreport", "a\na/b\na/b/c.txt\na/d.go\n", 0},
		{"tree -s --noreport a/b", "[       4096]  a/b\n└── [          1]  c.txt\n", 0},
		{"tree -F --dirsfirst -L 1 --noreport", "./\n├── a/\n├── e/\n├── l -> a/\n└── z.txt\n", 0},
		{"tree -J a", "[\n  {\"type\":\"directory\",\"name\":\"a\",\"contents\":[\n    {\"type\":\"directory\",\"name\":\"b\",\"contents\":[\n      {\"type\":\"file\",\"name\":\"c.txt\"}\n    ]},\n    {\"type\":\"file\",\"name\":\"d.go\"}\n  ]},\n  {\"type\":\"report\",\"directories\":2,\"files\":2}\n]\n", 0},
		{"tree e", "e\n\n0 directories, 0 files\n", 0},
		{"tree nofile", "nofile  [error opening dir]\n\n0 directories, 0 files\n", 2},
	} {
		if got := s.Exec("", commandtest.SplitWords(c.args)...); got.Stdout != c.want || got.Code != c.code {
			t.Errorf("%s: code %d, %s\n%s", c.args, got.Code, got.Stderr, got.Stdout)
		}
	}
}
