package project

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/project"
)

// TestDescribePullRequest checks where title and body come from.
func TestDescribePullRequest(t *testing.T) {
	one := &project.Publication{Commits: 1, Subjects: []string{"Fix it"}, Message: "It was broken."}
	two := &project.Publication{Commits: 2, Subjects: []string{"b", "a"}}
	two.Target = "fix"
	long := strings.Repeat("word ", 20)
	for name, c := range map[string]struct {
		p                    *project.Publication
		title, body, summary string
		wantTitle, wantBody  string
	}{
		"OneCommit":           {p: one, wantTitle: "Fix it", wantBody: "It was broken."},
		"ManyCommits":         {p: two, wantTitle: "fix", wantBody: "- b\n- a\n"},
		"SummaryOfOne":        {p: one, summary: "I fixed it.", wantTitle: "Fix it", wantBody: "I fixed it."},
		"FirstLineIsTitle":    {p: two, summary: "## Fix the login.\n\nNow it works.", wantTitle: "Fix the login", wantBody: "Now it works."},
		"LongFirstLineIsNot":  {p: two, summary: long + "\nmore", wantTitle: "fix", wantBody: long + "\nmore"},
		"OnlyATitle":          {p: two, summary: "Fix the login", wantTitle: "Fix the login", wantBody: "- b\n- a\n"},
		"GivenBodyWins":       {p: two, summary: "Title\nx", body: "mine", wantTitle: "Title", wantBody: "mine"},
		"GivenTitleKeepsText": {p: two, summary: "First\nx", title: "mine", wantTitle: "mine", wantBody: "First\nx"},
	} {
		t.Run(name, func(t *testing.T) {
			if title, body := describePullRequest(c.p, c.title, c.body, c.summary); title != c.wantTitle || body != c.wantBody {
				t.Errorf("title %q, body %q", title, body)
			}
		})
	}
	if got := cleanSummary("a\x1b[2J \r\n\u202eb\n\n" + strings.Repeat("é", maxSummary)); strings.ContainsAny(got, "\x1b\u202e\r") || len(got) > maxSummary+10 {
		t.Errorf("%.30q, %d bytes", got, len(got))
	}
}
