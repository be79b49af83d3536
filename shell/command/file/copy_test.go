package file_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestCp(t *testing.T) {
	tree := []string{"f=one", "0600 g=two", "0755 x=run", "d/a=1", "d/s/b=2", "d/l->a", "e/", "l->f", "ld->d", "bad->no", "0700 p/q=3", "4755 su=4", "h=old", "h.~1~=older", "t/f/"}
	cases := each("cp", tree, "f n", "f h", "f e", "f g e", "-r d n", "-r d e", "d n", "-R d/ e", "-a d n", "-r d/. e", "-T f e", "-rT d e", "-t e f g", "f nodir/", "f no/n", "nofile n", "nofile f e", "f f", "f l", "l f", "l n", "-P l n", "-d l n", "-r l n", "-L l n", "-rL d n", "-rH ld n", "-r ld n", "ld n", "-a ld n", "bad n", "-r bad n", "f bad",
		"-v f n", "-v f g e", "-rv p n", "-p g n", "g n", "su n", "-p su n", "--preserve=mode g n", "--preserve=x g n", "--no-preserve=mode g n", "-n f h", "-u f h", "-b f h", "-bv f h", "--backup=numbered f h", "--backup=simple f h", "-S .bak f h", "-bv f g e", "--backup=x f h", "-l f n", "-l f h", "-lf f h", "-s f n", "-s f e", "-sf f h", "d/a f e", "-r d f", "f t", "-r t/f .", "f d/a n",
		"--parents d/s/b e", "--parents -v d/s/b e", "--parents f n", "-r --parents d/s e", "--remove-destination f l", "--remove-destination -v f h", "--attributes-only f n", "--attributes-only g h", "-i nofile n", "", "f", "-T f g h", "f g h", "f g nodir", "-t nodir f", "-t f g", "-t e -T f", "-rl d n", "f f e", "d/a e/ f", "--sparse=always f n", "--reflink=auto f n", "--reflink=x f n", "-x f n", "-f f h", "f/ n", "-ln f h", "-ls f n", "-bn f h", "-rf d ld e", "-r e n", "-au d n", "f d/s/../n", "-rp p n", "-r d/s d/a e f", "'' n", "-r ld/ n", "ld/a n", "-v l n", "-lv f n", "-sv f n", "-dr d n", "-rd bad n", "f ''")
	cases = append(cases, commandtest.Case{Run: "cp -i f h", Tree: tree, Stdin: "y\n"}, commandtest.Case{Run: "cp -i f h", Tree: tree, Stdin: "n\n"}, commandtest.Case{Run: "cp -i f g e\ncp -i g e", Tree: tree, Stdin: "y\n"}, commandtest.Case{Run: "cp -a f n\ncp -p g m", Tree: tree, Times: true}, commandtest.Case{Run: "ln f f2\ncp -a f f2 e\nstat -c %h e/f e/f2", Tree: tree}, commandtest.Case{Run: "cp /dev/stdin n", Stdin: "in"}, commandtest.Case{Run: "cp d/a d/s/b e", Tree: tree}, commandtest.Case{Run: "cp d/a f", Tree: tree}, commandtest.Case{Run: "cp f d/a e\ncp d/a e/f e", Tree: tree})
	commandtest.Compare(t, cases)
}

func TestMv(t *testing.T) {
	tree := []string{"f=one", "g=two", "d/a=1", "d/s/b=2", "e/", "l->f", "ld->d", "bad->no", "h=old", "h.~1~=older", "t/f/", "u/d/x=1", "v/d/"}
	cases := each("mv", tree, "f n", "f h", "f e", "f g e", "d n", "d e", "-T f e", "-T d e", "-T d t", "-t e f g", "f nodir/", "f no/n", "nofile n", "f f", "f l", "l f", "l n", "ld n", "ld/ n", "bad n", "-v f n", "-v f g e", "-n f h", "-u f h", "-b f h", "-bv f h", "--backup=numbered f h", "-S .bak f h", "--backup=x f h", "d d", "d d/n", "d/s d", "f t", "t/f .", "d f", "d u", "d v", "-f f h", "", "f", "f g h", "f g nodir", "-t nodir f", "-t f g", "-T f g h", "-nb f g", "f/ n", "d/ n", "d n/", "f f e", "e d t", "-v d n", ". n", "d/. n", "f ''", "'' n", "-vT e t/f", "u/d v/d -T", "ld e", "-bT e t", "e e", "d/a d/s/b .")
	cases = append(cases, commandtest.Case{Run: "mv -i f h", Tree: tree, Stdin: "y\n"}, commandtest.Case{Run: "mv -i f h", Tree: tree, Stdin: "n\n"}, commandtest.Case{Run: "ln f f2\nmv f f2", Tree: tree}, commandtest.Case{Run: "ln f f2\nmv -v f f2", Tree: tree}, commandtest.Case{Run: "mv f n\nmv n d/a\nmv d x", Tree: tree, Times: true})
	commandtest.Compare(t, cases)
}

func TestInstall(t *testing.T) {
	tree := []string{"f=one", "0600 g=two", "d/a=1", "e/", "l->f", "h=old", "0755 same=one"}
	commandtest.Compare(t, each("install", tree, "f n", "f h", "f g e", "-m 644 f n", "-m u=rw,go= f n", "-m x f n", "-d n/m/o", "-d e n", "-dv n/m", "-m 700 -d n/m", "-D f n/m/o", "-Dv f n/m/o", "-D -t n/m f g", "-t e f", "-t nodir f", "-T f e", "-T f n", "-v f n", "-v f h", "-p g n", "-b f h", "-bv f h", "-C f same", "-Cv f same", "-Cv f h", "-c f n", "d n", "nofile n", "", "f", "-d", "f no/n", "f g nodir", "l n", "f l", "f f", "-o root -g bin f n", "-o nosuch f n", "-m 4755 f n", "-g bin -d n", "-d f", "f g h", "-m a+x f n"))
	commandtest.Compare(t, []commandtest.Case{{Run: "install -m 755 /dev/stdin n", Stdin: "#!/bin/sh\n"}, {Run: "install -p g n", Tree: tree, Times: true}})
}

func TestCpIntoItselfEnds(t *testing.T) {
	for _, to := range []string{"d", "d/n", "d/s/n"} {
		s := commandtest.New(t, "/w")
		commandtest.MakeTree(t, s.FS, "/w", []string{"d/a=1", "d/s/b=2", "d/z=3"})
		o := s.Exec("", "cp", "-r", "d", to)
		if o.Code != 1 || !strings.Contains(o.Stderr, "cp: cannot copy a directory, 'd', into itself, '"+to) {
			t.Errorf("cp -r d %s: %+v", to, o)
		}
		if s.FS.Usage().Nodes > 400 {
			t.Errorf("cp -r d %s: %d nodes", to, s.FS.Usage().Nodes)
		}
	}
}
