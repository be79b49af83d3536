package text_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestSort(t *testing.T) {
	in := "banana 3\napple 10\n  cherry 2\nApple 9\nbanana 3\n-5 x\n1.5 y\n10 z\n1e3 w\n0x10 q\n\nzebra\nfile10.txt\nfile9.txt\nfile1.10\nfile1.9.tar.gz\n2K\n1M\n512\n-1G\nJAN 3\nfeb 2\n  Mar 1\nfoo\na-b\nab\na b\nnan\ninf\n.hid\n~til\n000\n-0\n00.10\n.1\nz\x00a\nz"
	tree := []string{
		"a=b:2:x\na:10:y\nc:1:z\na:9:w\nb:2:x\n", "b=1\n3\n5\n", "c=2\n4\n6", "dup=x 1\nx 2\ny 1\nx 1\n", "d/", "names=a\x00b\x00", "sorted=a\nb\nb\nc\n", "z=b\x00a\x00c\x00", "bad=a\nc\nb\n",
		"ip=10.0.0.2\n10.0.0.10\n9.1.1.1\n192.168.1.1\n", "w=  b 2\n a 10\nc\t1\n\tb 1\n",
	}
	var cases []commandtest.Case
	for _, args := range []string{
		"", "-r", "-n", "-nr", "-g", "-h", "-V", "-M", "-f", "-d", "-i", "-b", "-u", "-fu", "-nu", "-s", "-fs", "-df", "-rs", "-Vr", "-gr", "-hr", "-Mr", "-bn", "-ru", "-z",
		"-t: -k2n a", "-t: -k2,2nr -k1 a", "-t: -k1,1 -k2,2n a", "-t: -k1,1r -k2n a", "-t: -u -k1,1 a", "-k2 dup", "-k2,2 -s dup", "-k 1,1 -u dup", "-k1.2,1.3 a", "-t : -k 3 a", "-t: -k2.1,2.1 a",
		"b c", "-m b c", "-mr b c", "-m c b a", "-c sorted", "-c bad", "-C bad", "-cu sorted", "-c -r bad", "--check=quiet bad", "--check=silent sorted", "--check bad", "-c", "-c a b", "-o a a", "-o out b c", "-mo b b c", "-o b -m b c",
		"nofile", "nofile b", "d", "--files0-from=names", "--files0-from=nofile", "-z z", "-k 0", "-k x", "-k 1.0", "-k 1,0", "-k 1z", "-k 1,x", "-k 1.x", "-k ''", "-t ab", "-t ''", "-nd", "-nM", "-gn", "-Vn", "-k1nM", "-k1,1Vd", "-t a -t b", "-o x -o y",
		"--sort=numeric", "--sort=version", "--sort=h", "--sort=x", "--check=x b", "-S 1M b", "-T /tmp b", "--parallel=2 b", "-t. -k1,1n -k2,2n -k3,3n -k4,4n ip", "-V ip", "-k2b w", "-b -k1 w", "-k1b,1 w", "-k1,1b w", "-k1bf -k2n w", "-n -k2 w",
		"-k2,1 w", "-k 9 w", "-k1.5 w", "-t $'\\t' -k2 w", "-t ' ' -k2n w", "-k2nr,2 dup", "-rk2 dup", "-r -k2,2n dup", "-r -k1,1f -k2,2 dup", "- b", "-u -t: -k2,2n a", "-c -k2,2n dup", "-c -n", "-fd", "-di", "-k1fr", "--key=2 --reverse dup", "-t '\\0' -k1 z",
	} {
		cases = append(cases, commandtest.Case{Run: "sort " + args, Tree: tree, Stdin: in})
	}
	commandtest.Compare(t, cases)
}

// TestSortRandomLines sorts lines of all lengths and few letters, so that they
// share prefixes of every length.
func TestSortRandomLines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for range 6000 {
		switch r.IntN(3) {
		case 0:
			fmt.Fprintf(&b, "%d.%d\t%d\n", r.IntN(50)-25, r.IntN(1000), r.IntN(10))
		case 1:
			b.WriteString("common prefix of many lines " + strings.Repeat("x", r.IntN(20)) + strings.Repeat("\x00", r.IntN(3)) + "\n")
		default:
			for range r.IntN(24) {
				b.WriteByte("ab A\tz"[r.IntN(6)])
			}
			b.WriteByte('\n')
		}
	}
	var cases []commandtest.Case
	for _, args := range []string{"", "-r", "-n", "-rn", "-k2", "-k2n", "-f", "-u", "-fu", "-g", "-V", "-h", "-s -k1,1", "-d", "-b", "-rs -k2,2", "-k1,1 -k2nr", "-t a -k2"} {
		cases = append(cases, commandtest.Case{Run: "sort " + args, Stdin: b.String()})
	}
	commandtest.Compare(t, cases)
}
