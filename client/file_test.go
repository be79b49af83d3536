package client_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// ask sends a plain request to a station over TCP and returns the answer with
// its body.
func (st *station) ask(t *testing.T, method, path string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, st.host+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+st.token)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	tr := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v after %q", method, path, err, b)
	}
	return resp, string(b)
}

func filePath(sb *client.Sandbox, route, name string) string {
	return "/v1/sandboxes/" + sb.ID() + route + "?path=" + url.QueryEscape(name)
}

func TestRanges(t *testing.T) {
	st := serve(t, "tcp")
	sb := st.sandbox(t)
	if err := atoll.WriteFile(t.Context(), sb, "/tmp/f", []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := filePath(sb, "/files", "/tmp/f")
	whole, body := st.ask(t, "GET", at, nil)
	tag := whole.Header.Get("Etag")
	if body != "0123456789" || tag == "" || whole.Header.Get("Last-Modified") == "" || whole.Header.Get("Accept-Ranges") != "bytes" ||
		whole.Header.Get("Content-Type") != "application/octet-stream" || whole.Header.Get("X-Content-Type-Options") != "nosniff" ||
		whole.Header.Get("Content-Disposition") != "attachment; filename=f" || whole.ContentLength != 10 {
		t.Errorf("the whole: %q, %v", body, whole.Header)
	}
	for _, c := range []struct {
		law, method  string
		header       []string
		status       int
		body, ranges string
	}{
		{"Head", "HEAD", nil, 200, "", ""},
		{"First", "GET", []string{"Range", "bytes=0-3"}, 206, "0123", "bytes 0-3/10"},
		{"Middle", "GET", []string{"Range", "bytes=4-5"}, 206, "45", "bytes 4-5/10"},
		{"FromThere", "GET", []string{"Range", "bytes=7-"}, 206, "789", "bytes 7-9/10"},
		{"Last", "GET", []string{"Range", "bytes=-2"}, 206, "89", "bytes 8-9/10"},
		{"PastTheEnd", "GET", []string{"Range", "bytes=8-100"}, 206, "89", "bytes 8-9/10"},
		{"LongSuffix", "GET", []string{"Range", "bytes=-100"}, 206, "0123456789", "bytes 0-9/10"},
		{"Beyond", "GET", []string{"Range", "bytes=10-"}, 416, "problem", "bytes */10"},
		{"EmptySuffix", "GET", []string{"Range", "bytes=-0"}, 416, "problem", "bytes */10"},
		{"TwoAreTheWhole", "GET", []string{"Range", "bytes=0-1,4-5"}, 200, "0123456789", ""},
		{"NonsenseIsTheWhole", "GET", []string{"Range", "bytes=b-a"}, 200, "0123456789", ""},
		{"OtherUnit", "GET", []string{"Range", "lines=1-2"}, 200, "0123456789", ""},
		{"Overflow", "GET", []string{"Range", "bytes=99999999999999999999-"}, 200, "0123456789", ""},
		{"IfRangeSame", "GET", []string{"Range", "bytes=0-0", "If-Range", tag}, 206, "0", "bytes 0-0/10"},
		{"IfRangeOther", "GET", []string{"Range", "bytes=0-0", "If-Range", `"other"`}, 200, "0123456789", ""},
		{"NotModified", "GET", []string{"If-None-Match", tag}, 304, "", ""},
		{"Modified", "GET", []string{"If-None-Match", `"other"`}, 200, "0123456789", ""},
		{"Precondition", "GET", []string{"If-Match", `"other"`}, 412, "", ""},
	} {
		t.Run(c.law, func(t *testing.T) {
			resp, body := st.ask(t, c.method, at, nil, c.header...)
			if c.body == "problem" && resp.Header.Get("Content-Type") == wire.ContentType {
				body = "problem"
			}
			if resp.StatusCode != c.status || body != c.body || resp.Header.Get("Content-Range") != c.ranges {
				t.Errorf("%d, %q, %q", resp.StatusCode, body, resp.Header.Get("Content-Range"))
			}
		})
	}
	rc, err := sb.OpenRange(t.Context(), "/tmp/f", 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(rc)
	if err = errors.Join(err, rc.Close()); err != nil || string(b) != "3456" {
		t.Errorf("OpenRange: %q, %v", b, err)
	}
	if err := atoll.WriteFile(t.Context(), sb, "/tmp/f", []byte("other 6789"), 0o644); err != nil {
		t.Fatal(err)
	}
	if changed, _ := st.ask(t, "HEAD", at, nil); changed.Header.Get("Etag") == tag {
		t.Error("another content has the same ETag")
	}
}

// half is a reader that fails in the middle.
type half struct{ n int }

func (h *half) Read(b []byte) (int, error) {
	if h.n <= 0 {
		return 0, io.ErrNoProgress
	}
	h.n -= len(b)
	return len(b), nil
}

func TestInterruptedUploadKeepsOldContent(t *testing.T) {
	sb := serve(t, "unix").sandbox(t)
	ctx := t.Context()
	if err := atoll.WriteFile(ctx, sb, "/tmp/f", []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sb.WriteFile(ctx, "/tmp/f", &half{1 << 20}, 0o644); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("WriteFile from a reader that fails: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := sb.WriteFile(cancelled, "/tmp/f", r, 0o644); !errors.Is(err, context.Canceled) {
			t.Errorf("WriteFile that is cancelled: %v", err)
		}
	})
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	cancel()
	wg.Wait()
	_ = w.Close()
	gone(t, sb)
	if b, err := atoll.ReadFile(ctx, sb, "/tmp/f"); err != nil || string(b) != "old" {
		t.Errorf("afterwards: %d bytes, %v", len(b), err)
	}
	patience, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for { // the server may not have noticed yet that we are gone
		list, err := atoll.ReadDir(patience, sb, "/tmp")
		if err != nil {
			t.Fatalf("something is left behind: %v", err)
		}
		if len(list) == 1 {
			break
		}
	}
}

// counted counts what is read of it.
type counted struct {
	left int64

	mu   sync.Mutex
	read int64 // guarded by mu
}

func (c *counted) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(int64(len(b)), c.left-c.read)
	if c.read += n; n == 0 {
		return 0, io.EOF
	}
	return int(n), nil
}

// TestLargeUploadIsRefusedEarly sends 2 GB to where 100 MB may be.
func TestLargeUploadIsRefusedEarly(t *testing.T) {
	const size, quota = 2 << 30, 100 << 20
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			st := serve(t, network)
			ctx := t.Context()
			cfg := atoll.Config{}
			cfg.Limits.Disk, cfg.Limits.FileSize = quota, -1
			sb, err := st.client(t).CreateSandbox(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := sb.Destroy(ctx); err != nil {
					t.Error(err)
				}
			}()
			if err := atoll.WriteFile(ctx, sb, "/tmp/f", []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			for law, send := range map[string]func(io.Reader) error{
				"WriteFile": func(r io.Reader) error { return sb.WriteFile(ctx, "/tmp/f", r, 0o644) },
				"Import": func(r io.Reader) error {
					var head bytes.Buffer
					if err := tar.NewWriter(&head).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "f", Size: size, Mode: 0o644}); err != nil {
						return err
					}
					return sb.Import(ctx, "/tmp", io.MultiReader(&head, r))
				},
			} {
				src := &counted{left: size}
				if err := send(src); !errors.Is(err, atoll.ErrQuota) {
					t.Errorf("%s of 2 GB into 100 MB: %v", law, err)
				}
				src.mu.Lock()
				if src.read > 2*quota {
					t.Errorf("%s: %d MB were sent before it was refused", law, src.read>>20)
				}
				src.mu.Unlock()
				if b, err := atoll.ReadFile(ctx, sb, "/tmp/f"); err != nil || string(b) != "old" {
					t.Errorf("%s: afterwards there are %d bytes, %v", law, len(b), err)
				}
			}
		})
	}
}

func TestWriteOnlyIfItIsNew(t *testing.T) {
	st := serve(t, "tcp")
	sb := st.sandbox(t)
	at := filePath(sb, "/files", "/tmp/new")
	for i, status := range []int{204, 412} {
		if resp, body := st.ask(t, "PUT", at+"&mode=640", strings.NewReader(fmt.Sprint(i)), "If-None-Match", "*"); resp.StatusCode != status {
			t.Errorf("write %d: %d %s", i, resp.StatusCode, body)
		}
	}
	info, err := atoll.Stat(t.Context(), sb, "/tmp/new")
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("Stat: %v, %v", info, err)
	}
}

func TestArchivesMayBeCompressed(t *testing.T) {
	st := serve(t, "tcp")
	sb := st.sandbox(t)
	if err := atoll.WriteFile(t.Context(), sb, "/tmp/d/f", []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	resp, body := st.ask(t, "GET", filePath(sb, "/archive", "/tmp/d"), nil, "Accept-Encoding", "br, gzip;q=0.5")
	zip, err := gzip.NewReader(strings.NewReader(body))
	if err != nil || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("gzip: %v, %v", err, resp.Header)
	}
	if h, err := tar.NewReader(zip).Next(); err != nil || h.Name != "d/" {
		t.Errorf("the first entry: %v, %v", h, err)
	}
	if resp, _ := st.ask(t, "GET", filePath(sb, "/archive", "/tmp/d"), nil, "Accept-Encoding", "gzip;q=0"); resp.Header.Get("Content-Encoding") != "" {
		t.Error("it is compressed though the client refuses that")
	}
	if resp, text := st.ask(t, "PUT", filePath(sb, "/archive", "/tmp/back"), strings.NewReader(body), "Content-Encoding", "gzip"); resp.StatusCode != 204 {
		t.Fatalf("import: %d %s", resp.StatusCode, text)
	}
	if b, err := atoll.ReadFile(t.Context(), sb, "/tmp/back/d/f"); err != nil || string(b) != "content" {
		t.Errorf("what was imported: %q, %v", b, err)
	}
	for law, want := range map[string]int{"br": 415, "gzip": 422} {
		if resp, text := st.ask(t, "PUT", filePath(sb, "/archive", "/tmp/back"), strings.NewReader("nonsense"), "Content-Encoding", law); resp.StatusCode != want {
			t.Errorf("nonsense as %s: %d %s", law, resp.StatusCode, text)
		}
	}
}

func TestStatReturnsLinkTarget(t *testing.T) {
	sb := serve(t, "unix").sandbox(t)
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "mkdir /tmp/d; ln -s ../no/where /tmp/d/link"}); err != nil {
		t.Fatal(err)
	}
	info, err := atoll.Stat(t.Context(), sb, "/tmp/d/link")
	if err != nil || info.(interface{ Linkname() string }).Linkname() != "../no/where" {
		t.Errorf("Stat: %v, %v", info, err)
	}
	list, err := atoll.ReadDir(t.Context(), sb, "/tmp/d")
	if err != nil || len(list) != 1 || list[0].(interface{ Linkname() string }).Linkname() != "../no/where" {
		t.Errorf("ReadDir: %v, %v", list, err)
	}
}

// TestWorkspaceFiles are reached with no sandbox.
func TestWorkspaceFiles(t *testing.T) {
	c := serve(t, "unix").client(t)
	ctx := t.Context()
	if _, err := c.CreateWorkspace(ctx, atoll.Workspace{Name: "work"}); err != nil {
		t.Fatal(err)
	}
	f := c.Files("work")
	if err := errors.Join(f.Mkdir(ctx, "/src/deep", 0o755), f.WriteFile(ctx, "/src/deep/a", strings.NewReader("one"), 0o640)); err != nil {
		t.Fatal(err)
	}
	info, err := f.StatFile(ctx, "/src/deep/a")
	if err != nil || info.Size() != 3 || info.Mode() != 0o640 {
		t.Errorf("StatFile: %v, %v", info, err)
	}
	rc, err := f.Export(ctx, "/src")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Import(ctx, "/copy", rc), rc.Close()); err != nil {
		t.Fatalf("Import of an Export: %v", err)
	}
	list, err := f.ReadDir(ctx, "/copy/src")
	if err != nil || len(list) != 1 || list[0].Name() != "deep" || !list[0].IsDir() {
		t.Errorf("ReadDir: %v, %v", list, err)
	}
	in, err := f.OpenFile(ctx, "/copy/src/deep/a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(in)
	if err = errors.Join(err, in.Close()); err != nil || string(b) != "one" {
		t.Errorf("OpenFile: %q, %v", b, err)
	}
	if err := f.Remove(ctx, "/copy"); err != nil {
		t.Error(err)
	}
	if _, err := f.StatFile(ctx, "/copy"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("StatFile of what was removed: %v", err)
	}
	if _, err := c.Files("none").ReadDir(ctx, "/"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("files of no workspace: %v", err)
	}
	if err := c.RemoveWorkspace(ctx, "work"); err != nil {
		t.Error(err)
	}
}
