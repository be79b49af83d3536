package assistant

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/npm"
)

// packaged is an agent whose program is in a registry.
type packaged struct {
	agent.Agent
	of *agent.Package
}

func (packaged) Name() string               { return "tool" }
func (p packaged) Features() agent.Features { return agent.Features{Package: p.of} }

// startRegistry is a registry that has every version of every package: one file, bin/tool.
func startRegistry(t *testing.T) *npm.Registry {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	const script = "#!/bin/sh\necho ran\n"
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "package/bin/tool", Mode: 0o644, Size: int64(len(script))}); err != nil {
		t.Fatal(err)
	}
	_, err := w.Write([]byte(script))
	if err = errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(b.Bytes())
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tgz" {
			_, _ = w.Write(b.Bytes())
			return
		}
		name, version, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		fmt.Fprintf(w, `{"name":%q,"version":%q,"dist":{"tarball":"%s/tgz","integrity":"sha512-%s"}}`, name, version, s.URL, base64.StdEncoding.EncodeToString(sum[:]))
	}))
	t.Cleanup(s.Close)
	return &npm.Registry{URL: s.URL}
}

func TestPrograms(t *testing.T) {
	p := &Programs{Dir: filepath.Join(t.TempDir(), "agents"), Registry: startRegistry(t)}
	a := packaged{of: &agent.Package{Name: "tool", Version: "1.0.0", Program: "bin/tool"}}
	if got, err := p.Program(a); err != nil || got.Mounts != nil {
		t.Errorf("before it is installed: %+v, %v", got, err)
	}
	for _, version := range []string{"", "2.0.0", "", ""} {
		i, err := p.Install(t.Context(), a, version, nil)
		if version == "" {
			version = "1.0.0"
		}
		if err != nil || i.Version != version || i.Agent != "tool" || i.Package != "tool" {
			t.Fatalf("%s: %+v, %v", version, i, err)
		}
		got, err := p.Program(a)
		want := Program{Mounts: []atoll.Mount{{Source: filepath.Join(p.Dir, "tool", version), Target: "/opt/atoll/agents/tool", ReadOnly: true}}, Path: []string{"/opt/atoll/agents/tool/bin"}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %s, %v", version, diff, err)
		}
		if info, err := os.Stat(filepath.Join(got.Mounts[0].Source, "bin", "tool")); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: the program: %v, %v", version, info, err)
		}
	}
	if there, err := p.Remove(a); !there || err != nil {
		t.Errorf("Remove: %t, %v", there, err)
	}
	if there, err := p.Remove(a); there || err != nil {
		t.Errorf("Remove twice: %t, %v", there, err)
	}
	if _, err := p.Find(a); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("after Remove: %v", err)
	}
}

func TestProgramsThatAreNot(t *testing.T) {
	p := &Programs{Dir: filepath.Join(t.TempDir(), "agents"), Registry: startRegistry(t)}
	for law, c := range map[string]struct {
		of      *agent.Package
		version string
		want    error
	}{
		"OfNoRegistry":    {nil, "", atoll.ErrUnsupported},
		"WithoutProgram":  {&agent.Package{Name: "tool", Version: "1.0.0", Program: "bin/other"}, "", atoll.ErrInvalid},
		"NoFile":          {&agent.Package{Name: "tool", Version: "1.0.0", Program: "bin"}, "", atoll.ErrInvalid},
		"VersionLeadsOut": {&agent.Package{Name: "tool", Version: "1.0.0", Program: "bin/tool"}, "../../x", atoll.ErrInvalid},
	} {
		t.Run(law, func(t *testing.T) {
			a := packaged{of: c.of}
			if _, err := p.Install(t.Context(), a, c.version, nil); !errors.Is(err, c.want) {
				t.Errorf("Install: %v, want %v", err, c.want)
			}
			if _, err := p.Find(a); !errors.Is(err, atoll.ErrNotFound) {
				t.Errorf("Find: %v", err)
			}
		})
	}
}

// TestVersionsOfMachines completes the version of packages that have one for each
// kind of computer.
func TestVersionsOfMachines(t *testing.T) {
	a := packaged{of: &agent.Package{Name: "tool-{arch}", Version: "1.0.0-linux-{arch}", Program: "{machine}/tool"}}
	own, err := packageOf(a, "")
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := strings.CutPrefix(own.Version, "1.0.0")
	if strings.Contains(own.Name+own.Version+own.Program, "{") || !strings.HasPrefix(kind, "-linux-") {
		t.Errorf("%+v", own)
	}
	for asked, want := range map[string]string{"2.0.0": "2.0.0" + kind, "2.0.0" + kind: "2.0.0" + kind} {
		if p, err := packageOf(a, asked); err != nil || p.Version != want {
			t.Errorf("%s: %+v, %v", asked, p, err)
		}
	}
}
