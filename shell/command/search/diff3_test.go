package search_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestDiff3 compares reports and merges with GNU's, also of random texts.
func TestDiff3(t *testing.T) {
	tree := []string{"old=1\n2\n3\n4\n5\n6\n7\n8\n9\n", "mine=1\ntwo\n3\n4\n5\n6\n7\n8\n9\n10\n", "yours=1\n2\n3\n4\nfive\n6\n7\neight\n9\n", "both=1\nTWO\n3\n4\nfive\n6\n9\n", "end=1\n2\n3", "empty="}
	var cases []commandtest.Case
	for _, files := range []string{"mine old yours", "mine old both", "yours old both", "both old both", "old old yours", "mine old old", "mine old end", "end old mine", "empty old mine", "mine empty yours", "mine old empty", "old old old"} {
		for _, o := range []string{"", "-m ", "-mE ", "-me ", "-m3 ", "-mx ", "-mX ", "-m -L a -L b -L c ", "-T "} {
			cases = append(cases, commandtest.Case{Run: "diff3 " + o + files, Tree: tree})
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		text := func() string {
			var b strings.Builder
			for range random.IntN(12) {
				fmt.Fprintf(&b, "%d\n", random.IntN(5))
			}
			return b.String()
		}
		tree := []string{"a=" + text(), "b=" + text(), "c=" + text()}
		cases = append(cases, commandtest.Case{Run: "diff3 a b c\ndiff3 -m a b c\ndiff3 -mE a b c", Tree: tree})
	}
	for _, line := range []string{"diff3", "diff3 mine old", "diff3 mine old nofile", "diff3 mine old yours more"} {
		cases = append(cases, commandtest.Case{Run: line, Tree: tree, Loose: true})
	}
	cases = append(cases, commandtest.Cases(tree, "", "sdiff mine yours", "sdiff -s mine yours", "sdiff -l -w 60 mine old", "sdiff -t mine both", "sdiff -W -i mine old", "sdiff old old", "sdiff -s old old")...)
	cases = append(cases, commandtest.Case{Run: "sdiff mine nofile", Tree: tree, Loose: true}, commandtest.Case{Run: "sdiff mine", Tree: tree, Loose: true})
	commandtest.Compare(t, cases)
}
