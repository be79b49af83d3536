package file_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// each returns a case for every line, all with the same tree.
func each(name string, tree []string, lines ...string) []commandtest.Case {
	var cases []commandtest.Case
	for _, line := range lines {
		deep := strings.Contains(line, "-R") || strings.Contains(line, "-rv") || strings.Contains(line, "--recursive")
		cases = append(cases, commandtest.Case{Run: name + " " + line, Tree: tree, Mixed: deep})
	}
	return cases
}

func TestPaths(t *testing.T) {
	tree := []string{"d/e/f=1", "l->d/e", "bad->no/where", "badl->nowhere", "loop->loop", "abs->/tmp", "f=x", "lf->f", "up->../", "chain->l"}
	commandtest.Compare(t, each("readlink", tree, "l", "f", "l bad", "-f l", "-f l/f", "-f bad", "-f badl", "-e badl", "-m bad", "-m x/y/../z", "-f loop", "-v f", "-v nofile", "-n l", "-n l bad", "-z l", "-f d/../l/..", "-f f/", "-f f/x", "-m f/x", "-e l", "", "-f d/e/nofile", "-f d//e/./f", "-fv loop", "-f ''", "-v ''", "-f chain", "-e chain/f", "-f chain/.."))
	commandtest.Compare(t, each("realpath", tree, "l", "l/f", "nofile", "no/file", "-e nofile", "-m no/file/..", "-s l/f", "-s l/../f", "-L l/..", "-P l/..", "--relative-to=d l", "--relative-to=d/e f", "--relative-to=. .", "--relative-base=d l f", "--relative-base=. l /tmp", "--relative-to=d --relative-base=d/e l", "--relative-to=f l", "-q nofile", "-z l", "", "loop", "-m loop", "bad", "badl", "f/", "f/x", "-m --relative-to=x/y z", "/", "//", "/..", "-e --relative-to=nofile f", "''"))
	commandtest.Compare(t, each("basename", nil, "a/b", "a/b/", "/", "//", "''", "a/b.txt .txt", ".txt .txt", "-s .c a.c b.c", "-a x/y z/w", "-z a", "", "a b c", "a/b b", "-as .x a.x -s .y", "--suffix=.c a.c", "-- -a"))
	commandtest.Compare(t, each("dirname", nil, "a/b", "a/b/", "/", "//a", "''", "a", "a//b//", "/a", "/a/b x y/z", "-z a/b", "", "./a", "a/b/c", "///", "--nosuch"))
	commandtest.Compare(t, each("pathchk", tree, "f", "f/x", "-p abcdefghijklmno", "-p 'a b'", "-P -- -x", "-P ''", "''", "--portability a/-b", "", "nofile", "no/file", "-p $'a\\nb'"))
}

func TestMakingAndRemoving(t *testing.T) {
	tree := []string{"d/e/f=1", "d/g=2", "f=x", "l->d", "empty/", "0500 ro/x=1", "lf->f", "bad->no", "a/b/c/"}
	commandtest.Compare(t, each("mkdir", tree, "new", "d", "f", "new/sub", "-p new/sub/deep", "-p d/e", "-p f/x", "-m 700 new", "-m u=rwx,go= new", "-m x new", "-v new new2", "-pv n/m/o", "-p -m 711 n/m", "", "f/x", "new d new2", "-p d/e/h d/g", "-m 1777 n", "-m a-w n", "-p l/n", "new/", "-p ./x/../y", "-p n//m", "''", "-m +t n", "-m 02755 n", "bad"))
	commandtest.Compare(t, each("rmdir", tree, "empty", "d", "f", "nofile", "-p a/b/c", "-p d/e", "-v empty", "-pv a/b/c", "--ignore-fail-on-non-empty d empty", "", "l", "l/", "empty/", "a/b/c empty", "-p a/b/c/"))
	commandtest.Compare(t, each("rm", tree, "f", "d", "-r d", "-d empty", "-d d", "-f nofile", "nofile f", "-rf d nofile f", "-v f", "-rv d", "-rv d f", "l", "l/", "-r l", "-r l/", "", "-f", "-r .", "-r ..", "-r d/.", "bad", "-rf ro", "-dv empty", "f/", "-r f/", "f/x", "-f f/x", "--interactive=never f", "--interactive=x f", "-r d/", "--recursive --force d", "-rf d/e/..", "''"))
	commandtest.Compare(t, []commandtest.Case{{Run: "rm -i f lf", Tree: tree, Stdin: "y\nn\n"}, {Run: "rm -ri d/e", Tree: tree, Stdin: "y\ny\nn\n"}, {Run: "rm -I f lf l bad", Tree: tree, Stdin: "n\n"}, {Run: "rm -rI d", Tree: tree, Stdin: "y\n"}, {Run: "rm -ri a", Tree: tree, Stdin: "y\ny\ny\ny\ny\ny\n"}, {Run: "rm -i empty -d", Tree: tree, Stdin: "y\n"}})
	commandtest.Compare(t, each("link", tree, "f g", "f", "", "f d", "nofile x", "d x", "a b c", "lf x"))
	commandtest.Compare(t, each("unlink", tree, "f", "", "nofile", "d", "lf", "a b"))
	commandtest.Compare(t, each("mkfifo", nil, "p", "-m 600 p q", "-m x p", "", "p p", "-m 4755 p"))
	commandtest.Compare(t, each("mknod", nil, "p p", "-m 600 x p", "p", "x q", "x p 1 2", "", "x z", "x p 1"))
	commandtest.Compare(t, each("truncate", tree, "-s 0 f", "-s 10 f new", "-s +5 f", "-s -1 d/g", "-s '<5' f", "-s '>5' f", "-s %4 f", "-s /4 f", "-s 1K f", "-s 1KB f", "-c -s 5 new", "-r d/g new", "-r d/g -s +2 new", "-r d/g -s 2 new", "-s x f", "-s 1x f", "f", "-s 5", "-s 5 d", "-s %0 f", "-r nofile f", "-s 5 no/file", "-o f", "-s +-5 f", "-s '<+5' f", "-s '' f", "-s 0 lf", "--size=3 bad"))
	commandtest.Compare(t, each("mktemp", nil, "-q no/XXXXXX", "no/XXXXXX", "xx", "aXX", "a b", "--suffix=/x aXXX", "--suffix=b aXXXc", "-t a/XXX", "-p /tmp /aXXX", "-d no/XXX", "--tmpdir=no aXXX", "-u -p no aXXX/b"))
}

func TestLn(t *testing.T) {
	tree := []string{"f=1", "g=2", "d/e/", "d/x=3", "l->f", "ld->d", "bad->no", "h=4", "h.~1~=5"}
	commandtest.Compare(t, each("ln", tree, "f n", "-s f n", "f g", "-f f g", "-s f g", "-sf f g", "f d", "f g d", "f g nodir", "-t d f g", "-s -t d f", "-T f d", "-sT f d", "-sn f ld", "-sfn f ld", "-sfT f ld", "-sf f ld", "-sv f n", "-v f n", "-sr f d/n", "-sr d/x n", "-sr d/e/y d/n", "-r f n", "nofile n", "-s nofile n", "d n", "-s d n", "", "f", "d/x", "-s d/x",
		"-sb f g", "-b f g", "-sb f h", "--backup=numbered -s f g", "--backup=simple f h", "-S .bak -s f g", "--backup=x f g", "--backup=none f g", "-sbv f g", "l n", "-L l n", "-P l n", "-L bad n", "bad n", "-f f f", "-s f f", "-sf f f", "-sf g f", "-T f", "-T a b c", "-t nodir f", "-t f g", "-t d -T f", "-sv f g d", "-s '' n", "-s f no/n", "f no/n", "-sf f d", "-sfT f d", "-s f bad", "-sf f bad", "-fs f l", "-bf f f"))
	commandtest.Compare(t, []commandtest.Case{{Run: "ln -si f g", Tree: tree, Stdin: "y\n"}, {Run: "ln -i f g", Tree: tree, Stdin: "n\n"}})
}

func TestChmod(t *testing.T) {
	tree := []string{"0644 f=1", "0755 x=1", "0750 d/", "d/g=1", "0700 d/e/h=1", "l->f", "bad->no", "4755 s=1", "2755 sg/", "1777 t/", "0000 z=1"}
	commandtest.Compare(t, each("chmod", tree, "600 f", "u+x f", "+x f", "-x x", "a-w,u+w f", "go= f", "u=rw,g=r,o= x", "g=u f", "o=g f", "u-o f", "a=rX f x d", "-R a+X d", "-R 700 d", "-Rv u+x d", "-v 644 f", "-v 600 f", "-c 644 f x", "-c 600 f", "4755 f", "u+s f", "g+s d", "+t d", "u-s s", "755 sg", "0755 sg", "00755 sg", "g-s sg", "=755 sg", "a=rx sg", "u=rwx sg",
		"l", "600 l", "600 bad", "600 nofile f", "-f 600 nofile", "x f", "u+q f", "9 f", "77777 f", "", "600", "--reference=x f", "--reference=nofile f", "-w f", "-r f", "-rwx f", "-- -w f", "+w f", "= f", "a= f", "u+rwx,g-r,o=x f", "u=g+w f", "+X f x", "ug+rw,o-rwx x", "+s f", "o+s f", "o+t d", "u+t d", "=t d", "-R go-rwx d nofile", "--recursive --changes g+w d", "+600 f", "-600 f", "=600 f", "u+600 f", "-v u+x bad", "-Rv 700 l d", "a+st f", "u+x,u-x f", "u+x, f", "a f", "--preserve-root -R 700 /", "g=o- f", "go+u-x x", "+rwxX z", "-v +x f d"))
	commandtest.Compare(t, each("chown", tree, "root f", "1:1 f", ":bin f", "daemon f", "daemon: f", "-v daemon f", "-v daemon:bin f", "-v :bin f", "-c root f", "-c bin f", "nosuch f", ":nosuch f", "-R 1 d", "-Rv 1:1 d", "-h 1 l", "1 bad", "-h 1 bad", "1 nofile", "", "root", "--from=root 1 f", "--from=1 2 f", "--reference=x f", "1.1 f", "-v root f", "-v 0:0 f", "-v : f", "+1 f", "-Rv 1 l d", "-RLv 1 l d", "'' f"))
	commandtest.Compare(t, each("chgrp", tree, "bin f", "-v bin f", "-v 0 f", "nosuch f", "", "1", "-R 1 d", "-c bin f x", "1 nofile"))
}
