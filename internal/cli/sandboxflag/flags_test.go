package sandboxflag

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
)

func TestMountTexts(t *testing.T) {
	for text, want := range map[string]atoll.WorkspaceMount{
		"data":          {Workspace: "data"},
		"data:ro":       {Workspace: "data", ReadOnly: true},
		"data:/x":       {Workspace: "data", Target: "/x"},
		"data:/x:ro":    {Workspace: "data", Target: "/x", ReadOnly: true},
		"data:/x:rw":    {Workspace: "data", Target: "/x"},
		"data:/work/ro": {Workspace: "data", Target: "/work/ro"},
	} {
		if got, err := config.ParseWorkspace(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":", "data:x", "data:/proc", "data:/x:/y", "Data", "data:/x:rx", "../x"} {
		if got, err := config.ParseWorkspace(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, got)
		}
	}
	if m, err := parseMount("/src:/dst:ro"); err != nil || m != (atoll.Mount{Source: "/src", Target: "/dst", ReadOnly: true}) {
		t.Errorf("%+v, %v", m, err)
	}
}
