package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/atoll-sandbox/atoll"
)

// archive returns a tar of entries; the Linkname of a regular file is its content.
func archive(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg || h.Typeflag == 0 {
			content, h.Linkname, h.Typeflag = h.Linkname, "", tar.TypeReg
			h.Size = int64(len(content))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, content string) tar.Header { return tar.Header{Name: name, Linkname: content} }
func dir(name string) tar.Header           { return tar.Header{Name: name, Typeflag: tar.TypeDir} }
func link(name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
}

func hardLink(name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeLink}
}

// imageOf returns an image of layers, lowest first.
func imageOf(t testing.TB, layers ...[]byte) v1.Image {
	t.Helper()
	im := v1.Image(empty.Image)
	cf, err := im.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf.OS, cf.Architecture = "linux", runtime.GOARCH
	cf.Config = v1.Config{Env: []string{"A=b"}, User: "1000", WorkingDir: "/src", Entrypoint: []string{"/init"}, Cmd: []string{"sh"}}
	if im, err = mutate.ConfigFile(im, cf); err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l)), nil })
		if err != nil {
			t.Fatal(err)
		}
		if im, err = mutate.AppendLayers(im, layer); err != nil {
			t.Fatal(err)
		}
	}
	return im
}

// fakeRegistry is a registry on loopback.
type fakeRegistry struct {
	host    string
	blobs   atomic.Int64 // responses with a layer or a configuration
	handler atomic.Pointer[http.Handler]
}

func newRegistry(t testing.TB) *fakeRegistry {
	t.Helper()
	reg := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	h := &fakeRegistry{}
	h.handler.Store(&reg)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			h.blobs.Add(1)
		}
		(*h.handler.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	h.host = strings.TrimPrefix(srv.URL, "http://")
	return h
}

func (h *fakeRegistry) push(t testing.TB, at string, im v1.Image) string {
	t.Helper()
	ref := h.host + "/" + at
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(parsed, im); err != nil {
		t.Fatal(err)
	}
	return ref
}

// read returns a file as it is in the stacked layers, without regard to whiteouts.
func read(root Root, name string) string {
	for _, l := range root.Layers {
		if b, err := os.ReadFile(filepath.Join(l, name)); err == nil {
			return string(b)
		}
	}
	return ""
}

func pull(t testing.TB, s *Store, ref string) Root {
	t.Helper()
	if _, err := s.PullImage(t.Context(), ref, nil); err != nil {
		t.Fatal(err)
	}
	root, err := s.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestPull(t *testing.T) {
	h, s := newRegistry(t), &Store{Dir: filepath.Join(t.TempDir(), "images")}
	base := archive(t, dir("etc/"), file("etc/name", "base"), file("bin/sh", strings.Repeat("x", 3<<20)))
	ref := h.push(t, "a/b:1", imageOf(t, base, archive(t, file("etc/name", "upper"))))
	var seen []atoll.Progress
	im, err := s.PullImage(t.Context(), ref, func(p atoll.Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	if im.Ref != ref || im.Layers != 2 || im.Size != 3<<20+9 || im.Platform != "linux/"+runtime.GOARCH || !strings.HasPrefix(im.Digest, "sha256:") {
		t.Errorf("%+v", im)
	}
	done := 0
	for _, p := range seen {
		if p.ID == "" || p.Message == "" {
			t.Errorf("progress that says nothing: %+v", p)
		}
		if p.Message == "done" {
			done++
		}
	}
	if done != 2 {
		t.Errorf("%d layers are done: %+v", done, seen)
	}
	root, err := s.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(root, "etc/name"); got != "upper" {
		t.Errorf("the upper layer's file is %q", got)
	}
	if c := root.Config; c.User != "1000" || c.Dir != "/src" || !slices.Equal(c.Env, []string{"A=b"}) || !slices.Equal(c.Entrypoint, []string{"/init"}) || !slices.Equal(c.Command, []string{"sh"}) {
		t.Errorf("%+v", c)
	}
	// The same layer is not fetched again, neither for the same image nor for another.
	other := h.push(t, "c:latest", imageOf(t, base))
	before := h.blobs.Load()
	again := pull(t, s, other)
	if n := h.blobs.Load() - before; n != 1 { // its configuration
		t.Errorf("%d blobs fetched", n)
	}
	if again.Layers[0] != root.Layers[1] {
		t.Error("two images don't share a layer")
	}
	if list, err := s.Images(t.Context()); err != nil || len(list) != 2 || list[0].Ref > list[1].Ref {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := s.Ensure(t.Context(), h.host+"/c", nil); err != nil {
		t.Error(err)
	}
}

func TestPullSaysWhyNot(t *testing.T) {
	h, s := newRegistry(t), &Store{Dir: t.TempDir()}
	for ref, want := range map[string]error{
		h.host + "/none:1":                      atoll.ErrNotFound,
		"UPPER":                                 atoll.ErrInvalid,
		"a b":                                   atoll.ErrInvalid,
		"127.0.0.1:1/x":                         atoll.ErrUnavailable,
		h.push(t, "foreign:1", foreignImage(t)): atoll.ErrUnsupported,
		h.host + "/x@sha256:" + strings.Repeat("0", 64):            atoll.ErrNotFound,
		h.push(t, "artifact:1", mutate.MediaType(empty.Image, "")): atoll.ErrInvalid,
	} {
		if _, err := s.PullImage(t.Context(), ref, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", ref, err, want)
		}
		if _, err := s.Resolve(t.Context(), ref); err == nil {
			t.Errorf("%s is there", ref)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.PullImage(ctx, h.push(t, "ok:1", imageOf(t, archive(t, file("a", "b")))), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestRegistriesLeadNowhereInside sends requests that a registry may cause.
func TestRegistriesLeadNowhereInside(t *testing.T) {
	for _, c := range []struct {
		registry, url    string
		redirect, passes bool
	}{
		{"127.0.0.1:5000", "http://[::1]:5/", true, true},
		{"localhost:5000", "http://localhost:5/", false, true},
		{"127.0.0.1:5000", "http://10.0.0.1/", true, false},
		{"10.0.0.1", "http://10.0.0.1/v2/", false, false},
		{"10.0.0.1", "https://10.0.0.1/v2/", false, true},
		{"10.0.0.1", "https://10.0.0.2/token", false, true},
		{"10.0.0.1", "https://10.0.0.2/blob", true, false},
		{"localhost.evil:80", "http://localhost.evil:80/", false, false},
		{"127.0.0.1.evil", "http://127.0.0.1.evil/", false, false},
		{"192.0.2.7", "http://127.0.0.1:8080/", true, false},
		{"192.0.2.7", "http://127.0.0.1:8080/", false, false},
		{"192.0.2.7", "https://127.0.0.1:8080/", true, false},
		{"192.0.2.7", "https://127.0.0.1/token", false, false},
		{"192.0.2.7", "https://[::ffff:127.0.0.1]/", true, false},
		{"192.0.2.7", "https://localhost/", true, false},
		{"192.0.2.7", "https://169.254.169.254/", true, false},
		{"192.0.2.7", "https://192.168.0.1/", true, false},
		{"192.0.2.7", "https://[fd00::1]/", true, false},
		{"192.0.2.7", "https://198.51.100.1/blob", true, true},
	} {
		sent := errors.New("sent")
		tr := restrictedTransport{roundTrip(func(*http.Request) (*http.Response, error) { return nil, sent }), c.registry}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.redirect {
			req.Response = &http.Response{StatusCode: http.StatusTemporaryRedirect}
		}
		if _, err := tr.RoundTrip(req); errors.Is(err, sent) != c.passes || errors.Is(err, atoll.ErrDenied) == c.passes {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func foreignImage(t *testing.T) v1.Image {
	im := imageOf(t, archive(t, file("a", "b")))
	cf, err := im.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf = cf.DeepCopy()
	cf.Architecture = "s390x"
	if im, err = mutate.ConfigFile(im, cf); err != nil {
		t.Fatal(err)
	}
	return im
}

// noiseLayer returns a layer that can't be compressed.
func noiseLayer(t testing.TB, n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return archive(t, file("noise", string(b)))
}

// cut makes the registry abort the first responses with a blob in the middle.
func (h *fakeRegistry) cut(times int64, then func(w http.ResponseWriter, r *http.Request, inner http.Handler)) {
	inner := *h.handler.Load()
	var n atomic.Int64
	var broken http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			inner.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		inner.ServeHTTP(rec, r)
		if rec.Body.Len() < 1<<20 || n.Add(1) > times {
			if then != nil && rec.Body.Len() >= 1<<20 {
				then(w, r, inner)
				return
			}
			inner.ServeHTTP(w, r)
			return
		}
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
		panic(http.ErrAbortHandler)
	})
	h.handler.Store(&broken)
}

func TestBrokenDownloadsGoOn(t *testing.T) {
	h, s := newRegistry(t), &Store{Dir: t.TempDir()}
	ref := h.push(t, "big:1", imageOf(t, noiseLayer(t, 4<<20)))
	var ranges []string
	h.cut(2, func(w http.ResponseWriter, r *http.Request, inner http.Handler) {
		ranges = append(ranges, r.Header.Get("Range"))
		inner.ServeHTTP(w, r)
	})
	pull(t, s, ref)
	if len(ranges) != 1 || !strings.HasPrefix(ranges[0], "bytes=3") { // three quarters of 4 MB
		t.Errorf("the last request asked for %q", ranges)
	}
}

func TestWrongContentIsRefused(t *testing.T) {
	h, s := newRegistry(t), &Store{Dir: t.TempDir()}
	ref := h.push(t, "big:1", imageOf(t, noiseLayer(t, 4<<20)))
	h.cut(0, func(w http.ResponseWriter, r *http.Request, inner http.Handler) {
		rec := httptest.NewRecorder()
		inner.ServeHTTP(rec, r)
		b := rec.Body.Bytes()
		b[len(b)/2] ^= 1
		_, _ = w.Write(b)
	})
	if _, err := s.PullImage(t.Context(), ref, nil); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a layer with a wrong bit: %v", err)
	}
	if names, err := listLayers(s); err != nil || len(names) > 0 {
		t.Errorf("layers: %v, %v", names, err)
	}
}

func TestManyPullAtOnce(t *testing.T) {
	h, at := newRegistry(t), t.TempDir()
	var layers [][]byte
	for i := range 5 {
		layers = append(layers, archive(t, file(fmt.Sprint("f", i), fmt.Sprint(i))))
	}
	ref := h.push(t, "many:1", imageOf(t, layers...))
	h.blobs.Store(0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s := &Store{Dir: at} // as in another process
			if _, err := s.PullImage(t.Context(), ref, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := h.blobs.Load(); n > 5+8 {
		t.Errorf("%d blobs fetched for 5 layers and 8 configurations", n)
	}
	if root := pull(t, &Store{Dir: at}, ref); len(root.Layers) != 5 || read(root, "f3") != "3" {
		t.Errorf("%+v", root)
	}
}

func TestUseKeepsAndRemoveRemoves(t *testing.T) {
	h, s := newRegistry(t), &Store{Dir: t.TempDir()}
	shared := archive(t, file("shared", "x"))
	one := h.push(t, "one", imageOf(t, shared, archive(t, file("one", "1"))))
	two := h.push(t, "two", imageOf(t, shared, archive(t, dir("closed/"), file("closed/two", "2"), tar.Header{Name: "closed/", Typeflag: tar.TypeDir, Mode: 0o500})))
	pull(t, s, one)
	pull(t, s, two)
	root, err := s.Acquire(t.Context(), two, "sb-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveImage(t.Context(), two); !errors.Is(err, atoll.ErrState) {
		t.Errorf("one in use: %v", err)
	}
	if _, err := s.Share(t.Context(), "sb-1", "sb-2"); err != nil {
		t.Fatal(err)
	}
	// The name belongs to another image now, which can be removed; the old layers stay.
	h.push(t, "two", imageOf(t, archive(t, file("new", "n"))))
	pull(t, s, two)
	if err := s.RemoveImage(t.Context(), two); err != nil {
		t.Error(err)
	}
	if used, err := s.ImageOf("sb-2"); err != nil || !slices.Equal(used.Layers, root.Layers) || read(used, "closed/two") != "2" {
		t.Errorf("%+v, %v", used, err)
	}
	if users, err := s.Users(); err != nil || !slices.Equal(users, []string{"sb-1", "sb-2"}) {
		t.Errorf("%v, %v", users, err)
	}
	if err := errors.Join(s.Release("sb-1"), s.Release("sb-2"), s.Release("sb-2"), s.CollectGarbage(t.Context())); err != nil {
		t.Fatal(err)
	}
	if names, err := listLayers(s); err != nil || len(names) != 2 {
		t.Errorf("%d layers are left of an image of two: %v", len(names), err)
	}
	if err := s.RemoveImage(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveImage(t.Context(), one); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("twice: %v", err)
	}
	for _, d := range []string{layersDir, partsDir, imagesDir, usesDir} {
		if left, err := os.ReadDir(s.pathTo(d)); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", d, left, err)
		}
	}
	for _, user := range []string{"", "../x", ".x", "a/b"} {
		if _, err := s.Acquire(t.Context(), one, user); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("user %q: %v", user, err)
		}
	}
}

func TestImport(t *testing.T) {
	files := archive(t, file("etc/name", "root"))
	im := imageOf(t, files, archive(t, file("etc/name", "upper")))
	tag, err := name.NewTag("my/app:2")
	if err != nil {
		t.Fatal(err)
	}
	var docker bytes.Buffer
	if err := tarball.Write(tag, im, &docker); err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	p, err := layout.Write(at, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(foreignImage(t), layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "s390x"})); err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(im, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
		layout.WithAnnotations(map[string]string{"io.containerd.image.name": "my/app:2"})); err != nil {
		t.Fatal(err)
	}
	oci, err := exec.Command("tar", "-C", at, "-c", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, ref string
		archive   []byte
		want      string
	}{
		{"Docker", "", docker.Bytes(), "upper"},
		{"DockerGzip", "other", gzipBytes(t, docker.Bytes()), "upper"},
		{"Layout", "", oci, "upper"},
		{"Root", "plain", files, "root"},
		{"RootGzip", "plain:gz", gzipBytes(t, files), "root"},
		{"RootZstd", "plain:zst", zstdBytes(t, files), "root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Store{Dir: t.TempDir()}
			got, err := s.ImportImage(t.Context(), c.ref, bytes.NewReader(c.archive), nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.ref == "" && got.Ref != "my/app:2" {
				t.Errorf("it is called %s", got.Ref)
			}
			if !strings.HasPrefix(got.Digest, "sha256:") || got.Size == 0 {
				t.Errorf("%+v", got)
			}
			root, err := s.Resolve(t.Context(), got.Ref)
			if err != nil {
				t.Fatal(err)
			}
			if read(root, "etc/name") != c.want {
				t.Errorf("%+v", root)
			}
			if left, err := os.ReadDir(s.pathTo(partsDir)); err != nil || slices.ContainsFunc(left, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".lock") }) {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func TestImportRefuses(t *testing.T) {
	files := archive(t, file("a", "b"))
	im, err := mutate.AppendLayers(imageOf(t, files), static.NewLayer([]byte("no tar"), types.DockerLayer))
	if err != nil {
		t.Fatal(err)
	}
	var bad bytes.Buffer
	tag, err := name.NewTag("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.Write(tag, im, &bad); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		ref     string
		archive []byte
		limits  Limits
		want    error
	}{
		"Nothing":      {"a", nil, Limits{}, atoll.ErrInvalid},
		"NoName":       {"", files, Limits{}, atoll.ErrInvalid},
		"Text":         {"a", []byte(strings.Repeat("no archive ", 100)), Limits{}, atoll.ErrInvalid},
		"Cut":          {"a", files[:512], Limits{}, atoll.ErrInvalid},
		"CutGzip":      {"a", gzipBytes(t, files)[:40], Limits{}, atoll.ErrInvalid},
		"BrokenLayer":  {"a", bad.Bytes(), Limits{}, atoll.ErrInvalid},
		"EmptyList":    {"a", archive(t, file("manifest.json", "[]")), Limits{}, atoll.ErrInvalid},
		"LeadsOut":     {"a", archive(t, file("manifest.json", `[{"Config":"../../etc/passwd","Layers":[]}]`)), Limits{}, atoll.ErrInvalid},
		"LayoutOut":    {"a", archive(t, file("oci-layout", "{}"), file("index.json", `{"manifests":[{"digest":"sha256:../../x"}]}`)), Limits{}, atoll.ErrInvalid},
		"Bomb":         {"a", gzipBytes(t, archive(t, file("zeros", strings.Repeat("\x00", 8<<20)))), Limits{Bytes: 1 << 20, Files: 10}, atoll.ErrQuota},
		"SparseBomb":   {"a", sparseArchive(t), Limits{Bytes: 1 << 20, Files: 10}, atoll.ErrQuota},
		"ManyFiles":    {"a", archive(t, dir("a"), dir("b"), dir("c")), Limits{Files: 2}, atoll.ErrQuota},
		"ManyImplicit": {"a", archive(t, file("a/b/c/d/e/f", "")), Limits{Files: 3}, atoll.ErrQuota},
		"XZ":           {"a", []byte("\xfd7zXZ\x00 and more"), Limits{}, atoll.ErrUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			s := &Store{Dir: t.TempDir(), Limits: c.limits}
			if _, err := s.ImportImage(t.Context(), c.ref, bytes.NewReader(c.archive), nil); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if list, err := s.Images(t.Context()); err != nil || len(list) > 0 {
				t.Errorf("%v, %v", list, err)
			}
			if names, err := listLayers(s); err != nil || len(names) > 0 && what != "BrokenLayer" {
				t.Errorf("layers: %v, %v", names, err)
			}
		})
	}
}

func gzipBytes(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstdBytes(t testing.TB, b []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

// sparseArchive returns a small archive of a file of 64 GB, which is a hole.
func sparseArchive(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "hole"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(64<<30), f.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := exec.Command("tar", "-C", dir, "-S", "-c", "hole").Output()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// listLayers returns the names of the layers of a store.
func listLayers(s *Store) ([]string, error) {
	entries, err := os.ReadDir(s.pathTo(layersDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}
