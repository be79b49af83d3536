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

// TestConfiguredVMSettings: what is configured of VMs applies to drivers that have VMs, and no driver
// is probed for it unless there is such a setting.
func TestConfiguredVMSettings(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	probe := func(driver string) (bool, error) { return driver == "vm", nil }
	for _, test := range []struct {
		driver, nested string
		hasVMs         HasVMs
		want           bool
	}{
		{"vm", "true", probe, true},
		{"other", "true", probe, false},
		{"", "true", nil, false},
		{"vm", "", nil, false},
	} {
		t.Setenv("ATOLL_DRIVER", test.driver)
		t.Setenv("ATOLL_DEFAULTS_MACHINE_NESTED_VIRT", test.nested)
		c, err := config.LoadAt(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var f Flags
		spec, err := f.Spec(c, test.hasVMs)
		if err != nil {
			t.Fatal(err)
		}
		if got := spec.VM != nil; got != test.want {
			t.Errorf("driver %q, nested %q: %+v", test.driver, test.nested, spec.VM)
		}
	}
}

// --header for https needs inspection, which it turns on.
func TestHeaderImpliesInspect(t *testing.T) {
	for header, inspect := range map[string]bool{
		"A=b@api.test": true, "A=b@https://api.test/": true, "A=b@api.test:8443": true, "A=b@https://api.test:80": true, "A=b@GET https://api.test/": true,
		"A=b@http://api.test": false, "A=b@GET http://api.test/": false, "A=b@HTTP://api.test": false, "A=b@api.test:80": false,
	} {
		f := Flags{headers: []string{header}}
		var n atoll.Network
		if err := f.readNetwork(&n); err != nil || n.Inspect != inspect || len(n.Headers) != 1 {
			t.Errorf("%s: %+v, %v", header, n, err)
		}
	}
}
