package agent_test

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

func TestPlace(t *testing.T) {
	files := fstest.MapFS{
		"SKILL.md":       {Data: []byte("---\n"), Mode: 0o400},
		"scripts/run.sh": {Data: []byte("#!"), Mode: 0o755},
	}
	got, err := agent.SkillFiles([]agent.Skill{{Name: "pdf", Files: files}}, "/state/skills")
	if err != nil {
		t.Fatal(err)
	}
	want := []agent.File{
		{Path: "/state/skills/pdf/SKILL.md", Data: []byte("---\n"), Mode: 0o644},
		{Path: "/state/skills/pdf/scripts/run.sh", Data: []byte("#!"), Mode: 0o755},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, name := range []string{"", ".", "..", "a/b", "../a", "/a"} {
		if _, err := agent.SkillFiles([]agent.Skill{{Name: name, Files: files}}, "/s"); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("a skill named %q: %v", name, err)
		}
	}
}
