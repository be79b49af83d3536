package text_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

func TestAwkCommandLine(t *testing.T) {
	tree := []string{"p.awk=BEGIN { print \"from file\" }\n{ print NR \": \" $1 }\n", "q.awk=END { print \"end\", v }\n", "bad.awk=BEGIN {\n  print (\n}\n", "data=a b\nc d\n", "fs=x:y\n", "d/", "dyn.awk=BEGIN { x = 0 }\n{\n  print 1 / x\n}\n"}
	commandtest.Compare(t, commandtest.Cases(tree, "in put\n",
		"gawk '{ print $2 }' data", "gawk '{ print $2 }'", "gawk -f p.awk data", "gawk -f p.awk -f q.awk data", "gawk -v v=1 -f q.awk data", "gawk -vv=2 -f q.awk data", "gawk -F: '{ print $2 }' fs", "gawk -F : '{ print $2 }' fs", "gawk --field-separator=: '{ print $2 }' fs", "gawk -F '' '{ print $2 }' fs", "gawk -f nofile data", "gawk -f bad.awk data", "gawk -f dyn.awk data",
		"gawk -e 'BEGIN { print 1 }' -e 'BEGIN { print 2 }'", "gawk --source='BEGIN { print 3 }'", "gawk -- '{ print $1 }' data", "gawk '{ print FILENAME }' data - fs", "gawk 'END { print x }' x=5 data", "gawk 'END { print x }' x=5 data x=6", "gawk -v 'x=a\\tb' 'BEGIN { print x }'", "gawk '{ print }' nofile", "gawk '{ print }' d data", "gawk 'BEGIN { print ARGC, ARGV[0], ARGV[1] }' data", "gawk 'BEGIN { print -x }' -x", "gawk -b 'BEGIN { print length(\"é\") }'", "gawk --characters-as-bytes '{ print length }' data",
		"gawk 'BEGIN { exit 3 }'", "gawk 'BEGIN { printf \"x\" > \"out\"; close(\"out\"); getline y < \"out\"; print y }'", "gawk '{ print > $1 }' data", "gawk '{ print >> \"data\" }' fs", "gawk --posix 'BEGIN { print 1 }'", "gawk --lint=no 'BEGIN { print 1 }'", "gawk -S 'BEGIN { print 1 }'", "gawk 'BEGIN { getline; print; getline; print }'", "gawk 'BEGIN { while ((getline l < \"-\") > 0) print \"l:\" l }'", "gawk -v OFS=- -F '[ ]' '{ $1 = $1 } 1' data", "gawk 'BEGIN { print ENVIRON[\"TZ\"], ENVIRON[\"NOPE\"] }'", "gawk -v x 'BEGIN { }'",
	)[:37])
	commandtest.Compare(t, []commandtest.Case{{Run: "gawk 'BEGIN { print length(\"é\"), toupper(\"é\") }'", Env: []string{"LC_ALL=C"}}, {Run: "gawk 'BEGIN { print strftime(\"%H:%M %Z\", 0) }'", Env: []string{"TZ=Asia/Tokyo"}}})
}

// TestAwkRunsCommands checks pipes and system() with a minimal shell.
func TestAwkRunsCommands(t *testing.T) {
	sh := program.Command{Name: "sh", Run: func(p *kernel.Proc) int { // sh -c 'words'
		return p.Run(commandtest.SplitWords(p.Args[2])...)
	}}
	s := commandtest.New(t, "/w", sh)
	s.WriteFile("data", "b\na\n")
	for _, c := range []struct{ prog, out string }{
		{`BEGIN { print system("cat data"); print system("cat nofile 2") }`, "b\na\n0\n1\n"},
		{`BEGIN { while (("cat data" | getline l) > 0) print "got", l; print close("cat data") }`, "got b\ngot a\n0\n"},
		{`BEGIN { print "z" | "sort"; print "y" | "sort"; print close("sort"); print "end" }`, "y\nz\n0\nend\n"},
		{`BEGIN { c = "sort"; print "q" |& c; print "p" |& c; close(c, "to"); while ((c |& getline l) > 0) print l; print close(c) }`, "p\nq\n0\n"},
		{`BEGIN { "nosuchprogram" | getline x; print "[" x "]", close("nosuchprogram") }`, "[] 127\n"},
		{`BEGIN { print "lost" | "tail -c 0"; print "kept" }`, "kept\n"},
		{`BEGIN { "yes" | getline x; print x; close("yes"); print "over" }`, "y\nover\n"},
	} {
		if o := s.Exec("", "awk", c.prog); o.Stdout != c.out {
			t.Errorf("%s: %+v, want %q", c.prog, o, c.out)
		}
	}
	if n := s.Kernel.Memory(); n != 0 {
		t.Errorf("%d bytes are still charged", n)
	}
}
