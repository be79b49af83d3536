package text_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestEd compares scripts with GNU ed.
func TestEd(t *testing.T) {
	tree := []string{"f=one\ntwo\nthree\nfour\nfive\n", "g=x\ny", "empty="}
	var cases []commandtest.Case
	for _, script := range []string{
		"1p\nbad\n2p\nx\nH\nh\n9p\n$p\nq\n", "a\nnew\n.\nq\n", "a\nnew\n.\nq\nq\n", "g/o/s/o/0/\\\np\n,n\n,l\n1,2j\n,p\nu\n,p\nw out\nwq\n", "H\n1p\n/xx\ns/q/r/\nk\n", "2\n\n.=\n=\n-\n/t/\n//\n?one?\n",
		"1,2d\n,p\nw\nq\n", "$a\nlast\n.\n0a\nfirst\n.\n,n\nwq\n", "2c\nTWO\nzwei\n.\n,p\nQ\n", "2i\nbefore\n.\n,p\nQ\n", "1m$\n,p\n1,2m3\n,p\nQ\n", "1t.\n,p\n1,2t0\n,p\nQ\n", "%s/o/0/g\n,p\nQ\n", ",s/e$/E/\n,p\nQ\n", "s/v/V/p\n1s/n/N/\ns\nQ\n",
		"s/\\(f\\)\\(i\\)/\\2\\1/p\ns/i/&&/p\nQ\n", "1s/n/a\\\nb/\n,p\nQ\n", "2ka\n'ap\n'a,$p\n'bp\nQ\n", "1;+2p\n2,+1p\n+p\n-2p\n--p\nQ\n", "/f/p\n/f/\n?t?p\n/f/,/f/p\nQ\n", "v/o/d\n,p\nQ\n", "g/f/m0\n,p\nQ\n", "g/e/a\\\nadded\\\n.\n,p\nQ\n", "g/t/d\nu\n,p\nQ\n", "r g\n,p\nf\nf new\nf\nw\nq\n", "2r g\n,p\nQ\n",
		"e g\n,p\nq\n", "1d\ne g\ne g\n,p\nQ\n", "E g\n,p\nq\n", "w\nw copy\n1,2w part\n3W part\nq\n", "1,3p\n1,3n\n2l\n2pn\nz2\n1z3\nQ\n", "1,2y\n$x\n,p\nQ\n", "0p\n6p\n3,2p\n-9p\nh\nQ\n", "1,3g/o/p\ng/o/\nQ\n", "P\n1p\nQ\n", "# comment\nQ\n", "s/one/two/\n1s/one/1/3\n,s/e/E/2\n,p\nQ\n", "j\n,p\n1,3j\n1p\nQ\n",
		"a\ntext\n.\n,p\nu\n,p\nu\n,p\nQ\n", "", "1,2s/[/]/x/\n1s/[aeiou]/[&]/gp\nQ\n", "1\n\n\n\n\n\n", "2,3d\n.p\nQ\n", ";p\n,p\n%p\nQ\n", "2;p\nQ\n", "1s,o,/,p\nQ\n", "h\nH\nz\nzz\n1zx\nQ\n", "s/f/\\//p\nQ\n", "1,$g/./s//X/\n,p\nQ\n",
	} {
		cases = append(cases, commandtest.Case{Run: "ed -s f", Tree: tree, Stdin: script, Loose: true}, commandtest.Case{Run: "ed f", Tree: tree, Stdin: script, Loose: true})
	}
	for _, line := range []string{"ed -s nofile", "ed nofile", "ed -s g", "ed g", "ed", "ed -s empty", "ed -v -s f", "ed -E -s f", "ed -p: -s f", "ed -l -s f"} {
		cases = append(cases, commandtest.Case{Run: line, Tree: tree, Stdin: "1p\nbad\na\nnew+\n.\ns/(n|x)+/<&>/p\nw out\nq\n", Loose: true})
	}
	for i := range cases {
		cases[i].Rare = true
	}
	commandtest.Compare(t, cases)
}

// TestEdBombs checks that scripts that would take any time or memory are stopped.
func TestEdBombs(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.WriteFile("f", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n")
	doubling := "a\nxxxxxxxx\n.\n"
	for range 60 {
		doubling += "%t$\n"
	}
	for range 60 {
		doubling += "%s/.*/&&/\n"
	}
	for _, script := range []string{doubling, "1s/a*/&&&&&&&&/\n" + doubling, "1s/\\(a*\\)*\\1b/x/\n", "1s/.*/&&&&&&&&&&&&&&&&&&&&/g\n"} {
		commandtest.RunHostile(t, s, script, "ed", "-s", "f")
		commandtest.RunHostile(t, s, script, "ed", "/dev/zero")
	}
	if n := s.Kernel.Memory(); n != 0 {
		t.Errorf("%d bytes stay charged", n)
	}
}
