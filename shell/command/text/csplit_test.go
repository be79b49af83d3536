package text_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestCsplitAgreesWithGNU(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range []string{
		"csplit f 5 10", "csplit f /5/", "csplit f /5/ {*}", "csplit -f o -n 3 f /1/+2", "csplit -z f %10% 20", "csplit f 30", "csplit -k f 5 30", "csplit -s f 3 {2}", "csplit f /zz/", "csplit f", "csplit f x",
		"csplit -b %03d.txt f 4", "csplit --suppress-matched f /^1/ {2}", "csplit nofile 1", "csplit f 5 3", "csplit - 2", "csplit f /1/ {2}", "csplit -k f /zz/", "csplit f /9/-2", "csplit f %5% /8/", "csplit f 1", "csplit f 0", "csplit -z f 1",
		"csplit f /5", "csplit f {2}", "csplit -s f /2/ {1} 20", "csplit f %zz%", "csplit f 25", "csplit f 26",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: []string{"f=" + commandtest.CountTo(25)}, Stdin: "a\nb\nc"})
	}
	commandtest.Compare(t, cases)
}
