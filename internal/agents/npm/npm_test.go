package npm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
)

// makePackage is a package as a registry has it.
func makePackage(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range entries {
		content := []byte(nil)
		if h.Typeflag == tar.TypeReg {
			content = []byte("content of " + h.Name)
			if h.Size == 0 {
				h.Size = int64(len(content))
			}
			content = append(content, make([]byte, max(0, int(h.Size)-len(content)))...)[:h.Size]
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func fileHeader(name string, mode int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}
}

func integrityOf(b []byte) string {
	sum := sha512.Sum512(b)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// fakeRegistry is a registry with one package, @scope/tool, that counts its requests.
type fakeRegistry struct {
	*httptest.Server
	integrity string
	mu        sync.Mutex
	asked     []string // guarded by mu
}

func newShop(t testing.TB, content []byte) *fakeRegistry {
	s := &fakeRegistry{integrity: integrityOf(content)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.RequestURI+" "+r.Header.Get("Authorization"))
		s.mu.Unlock()
		switch r.RequestURI {
		case "/reg/@scope%2ftool/1.2.3", "/reg/@scope%2ftool/latest":
			fmt.Fprintf(w, `{"name":"@scope/tool","version":"1.2.3","scripts":{"postinstall":"exit 1"},"dist":{"tarball":"%s/files/tool.tgz","integrity":%q}}`, s.URL, s.integrity)
		case "/reg/other/1.2.3":
			fmt.Fprintf(w, `{"name":"@scope/tool","version":"1.2.3","dist":{"tarball":"%s/files/tool.tgz","integrity":%q}}`, s.URL, s.integrity)
		case "/reg/away/1.2.3":
			fmt.Fprintf(w, `{"name":"away","version":"../../1.2.3","dist":{"tarball":"%s/files/tool.tgz","integrity":%q}}`, s.URL, s.integrity)
		case "/reg/elsewhere/1.2.3":
			fmt.Fprintf(w, `{"name":"elsewhere","version":"1.2.3","dist":{"tarball":"file:///etc/passwd","integrity":%q}}`, s.integrity)
		case "/reg/endless/1.2.3":
			fmt.Fprintf(w, `{"name":"endless%s`, strings.Repeat("x", maxManifest+10))
		case "/files/tool.tgz":
			_, _ = w.Write(content)
		case "/reg/secret/1.2.3":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *fakeRegistry) client() *Registry { return &Registry{URL: s.URL + "/reg"} }

// listTree returns what is in a directory.
func listTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	m := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		m[rel] = info.Mode().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFetch(t *testing.T) {
	content := makePackage(t,
		tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}},
		fileHeader("package/package.json", 0o600), fileHeader("package/bin/tool", 0o4755), fileHeader("package/deep/er/x", 0o666),
		tar.Header{Typeflag: tar.TypeDir, Name: "package/empty/", Mode: 0o700})
	s := newShop(t, content)
	home := t.TempDir()
	at := func(version string) string { return filepath.Join(home, version, "package") }
	var done, total int64
	for _, asked := range []string{"latest", "1.2.3", "1.2.3"} {
		version, err := s.client().Fetch(t.Context(), Package{"@scope/tool", asked}, at, func(d, n int64) { done, total = d, n })
		if err != nil || version != "1.2.3" {
			t.Fatalf("%s: %q, %v", asked, version, err)
		}
	}
	if done != int64(len(content)) || total != done {
		t.Errorf("progress ended at %d of %d", done, total)
	}
	want := map[string]string{
		"1.2.3": "drwxr-xr-x", "1.2.3/package": "drwxr-xr-x", "1.2.3/package/package.json": "-rw-r--r--",
		"1.2.3/package/bin": "drwxr-xr-x", "1.2.3/package/bin/tool": "-rwxr-xr-x",
		"1.2.3/package/deep": "drwxr-xr-x", "1.2.3/package/deep/er": "drwxr-xr-x", "1.2.3/package/deep/er/x": "-rw-r--r--", "1.2.3/package/empty": "drwxr-xr-x",
	}
	if diff := cmp.Diff(want, listTree(t, home)); diff != "" {
		t.Error(diff)
	}
	b, err := os.ReadFile(filepath.Join(at("1.2.3"), "bin/tool"))
	if err != nil || string(b) != "content of package/bin/tool" {
		t.Errorf("%q, %v", b, err)
	}
	n := 0
	for _, a := range s.asked {
		if strings.HasPrefix(a, "/files/") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("what is there was fetched %d times", n)
	}
}

// TestFetchRefuses has invalid registries and packages: Fetch leaves no files.
func TestFetchRefuses(t *testing.T) {
	good := makePackage(t, fileHeader("package/x", 0o644))
	for law, c := range map[string]struct {
		content   []byte
		integrity string
		name      string
		want      error
	}{
		"OtherContent":     {content: good, integrity: integrityOf([]byte("other")), want: atoll.ErrDenied},
		"NoDigest":         {content: good, integrity: "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", want: atoll.ErrDenied},
		"ShortDigest":      {content: good, integrity: "sha512-AAAA", want: atoll.ErrDenied},
		"NotThere":         {content: good, name: "nobody", want: atoll.ErrNotFound},
		"NotAllowed":       {content: good, name: "secret", want: atoll.ErrDenied},
		"AnotherPackage":   {content: good, name: "other", want: atoll.ErrUnavailable},
		"VersionLeadsOut":  {content: good, name: "away", want: atoll.ErrUnavailable},
		"NoWebAddress":     {content: good, name: "elsewhere", want: atoll.ErrInvalid},
		"EndlessAnswer":    {content: good, name: "endless", want: atoll.ErrQuota},
		"NameLeadsOut":     {content: good, name: "../x", want: atoll.ErrInvalid},
		"NameOfManyParts":  {content: good, name: "@a/b/c", want: atoll.ErrInvalid},
		"NotCompressed":    {content: []byte("no gzip"), want: atoll.ErrInvalid},
		"CutShort":         {content: good[:len(good)/2], want: atoll.ErrInvalid},
		"Empty":            {content: makePackage(t), want: atoll.ErrInvalid},
		"FileLeadsOut":     {content: makePackage(t, fileHeader("package/../../x", 0o644)), want: atoll.ErrInvalid},
		"FileFromRoot":     {content: makePackage(t, fileHeader("package//etc/x", 0o644)), want: atoll.ErrInvalid},
		"Symlink":          {content: makePackage(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "package/l", Linkname: "/etc"}), want: atoll.ErrInvalid},
		"HardLink":         {content: makePackage(t, fileHeader("package/x", 0o644), tar.Header{Typeflag: tar.TypeLink, Name: "package/l", Linkname: "package/x"}), want: atoll.ErrInvalid},
		"Device":           {content: makePackage(t, tar.Header{Typeflag: tar.TypeChar, Name: "package/null", Devmajor: 1, Devminor: 3}), want: atoll.ErrInvalid},
		"FileInAFile":      {content: makePackage(t, fileHeader("package/x", 0o644), fileHeader("package/x/y", 0o644)), want: nil},
		"LongName":         {content: makePackage(t, fileHeader("package/"+strings.Repeat("x/", 600)+"x", 0o644)), want: atoll.ErrInvalid},
		"NameWithNewParts": {content: makePackage(t, fileHeader(`package/..\x`, 0o644)), want: atoll.ErrInvalid},
	} {
		t.Run(law, func(t *testing.T) {
			s := newShop(t, c.content)
			if c.integrity != "" {
				s.integrity = c.integrity
			}
			if c.name == "" {
				c.name = "@scope/tool"
			}
			home := t.TempDir()
			_, err := s.client().Fetch(t.Context(), Package{c.name, "1.2.3"}, func(v string) string { return filepath.Join(home, v, "package") }, nil)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			for name, mode := range listTree(t, home) {
				if !strings.HasPrefix(mode, "d") || strings.Contains(name, ".new-") {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// TestFetchAtOnce installs one package many times at once: all have it.
func TestFetchAtOnce(t *testing.T) {
	s := newShop(t, makePackage(t, fileHeader("package/x", 0o644)))
	home := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.client().Fetch(t.Context(), Package{"@scope/tool", "1.2.3"}, func(v string) string { return filepath.Join(home, v) }, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(map[string]string{"1.2.3": "drwxr-xr-x", "1.2.3/x": "-rw-r--r--"}, listTree(t, home)); diff != "" {
		t.Error(diff)
	}
}

func TestConfigured(t *testing.T) {
	dir := t.TempDir()
	const text = "; a comment\n# another\nregistry = \"https://one.example/npm/\"\n@scope:registry=https://two.example\n//two.example/:_authToken=${TOKEN}\n//one.example/npm/:_authToken=${MISSING}\nnonsense\n"
	if err := os.WriteFile(filepath.Join(dir, ".npmrc"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for law, c := range map[string]struct {
		env  map[string]string
		want Registry
	}{
		"Nothing":     {map[string]string{}, Registry{}},
		"NoFile":      {map[string]string{"HOME": dir + "/no"}, Registry{}},
		"Environment": {map[string]string{"npm_config_registry": "https://env.example", "NPM_CONFIG_REGISTRY": "https://no.example"}, Registry{URL: "https://env.example"}},
		"File": {map[string]string{"HOME": dir, "TOKEN": "t"}, Registry{
			URL: "https://one.example/npm/", Scopes: map[string]string{"@scope": "https://two.example"}, Tokens: map[string]string{"//two.example/": "t", "//one.example/npm/": "${MISSING}"},
		}},
		"EnvironmentFirst": {map[string]string{"npm_config_userconfig": dir + "/.npmrc", "npm_config_registry": "https://env.example"}, Registry{
			URL: "https://env.example", Scopes: map[string]string{"@scope": "https://two.example"}, Tokens: map[string]string{"//two.example/": "${TOKEN}", "//one.example/npm/": "${MISSING}"},
		}},
	} {
		t.Run(law, func(t *testing.T) {
			r, err := ConfiguredRegistry(func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, *r); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTokensStayAtHome sends a token only where it is for.
func TestTokensStayAtHome(t *testing.T) {
	s := newShop(t, makePackage(t, fileHeader("package/x", 0o644)))
	r := s.client()
	host := strings.TrimPrefix(s.URL, "http:")
	r.Tokens = map[string]string{host + "/reg/": "secret", host + "/re": "wrong"}
	if _, err := r.Fetch(t.Context(), Package{"@scope/tool", "1.2.3"}, func(v string) string { return filepath.Join(t.TempDir(), v) }, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/reg/@scope%2ftool/1.2.3 Bearer secret", "/files/tool.tgz "}, s.asked); diff != "" {
		t.Error(diff)
	}
}

// FuzzUnpack unpacks anything: nothing but files and directories comes of it,
// beneath the directory.
func FuzzUnpack(f *testing.F) {
	f.Add(makePackage(f, fileHeader("package/x", 0o644), fileHeader("package/d/y", 0o755)))
	f.Add(makePackage(f, fileHeader("package/../x", 0o644)))
	f.Add(makePackage(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "package/l", Linkname: "../.."}, fileHeader("package/l/x", 0o644)))
	f.Fuzz(func(t *testing.T, b []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = unpackTar(t.Context(), bytes.NewReader(b), dir)
		for name, mode := range listTree(t, parent) {
			if name != "in" && !strings.HasPrefix(name, "in/") || mode[0] != '-' && mode[0] != 'd' {
				t.Errorf("%s %s", mode, name)
			}
		}
	})
}
