package agenttest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
)

// Fuzz fuzzes an agent's Conversation with any output; the transcripts below root are the
// seeds. Hostile output must affect nothing but the agent's own result.
func Fuzz(f *testing.F, a agent.Agent, root string) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*", "stdout.jsonl"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no transcripts in %s: %v", root, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, 0, true)
		for line := range bytes.Lines(b) { // each alone, so that small mutations stay valid lines
			f.Add(bytes.TrimSuffix(line, []byte("\n")), 1, false)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, code int, ask bool) {
		tr := Transcript{Turn: agent.Turn{Prompt: agent.Text("do the task"), Ask: ask}, Lines: Split(text), Code: code & 0xff}
		p := Play(a, tr)
		Laws(t, withoutDeltas(p.Events), len(p.Results))
	})
}

// withoutDeltas removes the deltas of texts, which a hostile agent may contradict.
func withoutDeltas(events []agent.Event) []agent.Event {
	kept := make([]agent.Event, 0, len(events))
	for _, e := range events {
		if e.Type == agent.TextDelta || e.Type == agent.ThoughtDelta {
			if e.Text != "" {
				continue
			}
		}
		e.Seq = int64(len(kept) + 1)
		kept = append(kept, e)
	}
	return kept
}
