package text_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestSplitAgreesWithGNU(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range []string{
		"split -l 10 f", "split -b 20 f p.", "split -n 3 f", "split -n l/3 f", "split -n r/3 f", "split -d -a 3 -l 10 f z", "split -l 10 --additional-suffix=.txt --numeric-suffixes=5 f q", "split -C 20 f",
		"split -l 1 -a 1 f", "split -l 0 f", "split -b zz f", "split nofile", "split --verbose -l 15 f", "split -n 2/3 f", "split -n l/2/3 f", "split -x -l 10 f", "split -t : -l 1 f", "split -e -n 40 f", "split -n 40 f",
		"split -l 5 -b 3 f", "split -10 f", "split -b 1K f", "split", "split -l 1", "split - out.", "split -a 1 -l 1 long", "split -l 1 long", "split -n l/7 long", "split -n r/2/4 long", "split -C 1 f", "split f a b", "split -n 0 f",
		"split -n 4/3 f", "split -a 1 -b 1 f", "split empty", "split -n 3 empty", "split -d -l 3 long", "split -b 3 f dir/nothere/x",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: []string{"f=" + commandtest.CountTo(25), "long=" + commandtest.CountTo(700), "empty=", "dir/"}, Stdin: "a\nb\nc"})
	}
	commandtest.Compare(t, cases)
}
