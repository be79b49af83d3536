package browser_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/api/web"
	"github.com/atoll-sandbox/atoll/test/browser"
)

var update = flag.Bool("update", false, "replace the golden pictures of testdata/looks")

// looksAnswers are the answers of an API that never changes.
//
//go:embed testdata/looks.json
var looksAnswers []byte

// looksTime is the time in the pages of TestLooks.
var looksTime = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// views are what TestLooks shows. Then is an expression to evaluate, ready one to wait for.
var views = []struct{ name, hash, then, ready string }{
	{"sandboxes", "#/", "", `document.querySelector('.chip.denied') && document.querySelector('[data-head=Branches] a')`},
	// The form moves the rows out of sight, where they are not drawn: it is opened when they are.
	{"create", "#/", `document.querySelector('[data-head=Branches] a').id; document.querySelector('.bar-top button.yes').click()`, `document.querySelector('.create label')`},
	{"question", "#/", `document.querySelector('[data-head=Branches] a').id; document.querySelector('[aria-label="remove api"]').click()`, `document.querySelector('dialog[open]')`},
	{"terminal", "#/s/s1web/", "", `document.body.innerText.includes('No terminal is open')`},
	{"agent", "#/s/s1web/agent", "", `document.querySelector('.asks')`},
	{"changes", "#/s/s1web/changes", "", `document.querySelector('.cm-content') && document.querySelector('.project table')`},
	{"changes-split", "#/s/s1web/changes", `[...document.querySelectorAll('.switch button')][1].click()`, `document.querySelector('.cm-merge-b')`},
	{"files", "#/s/s1web/files", "", `document.querySelector('[aria-label="Files"]')`},
	{"ports", "#/s/s1web/ports", "", `document.querySelector('[aria-label="Links"]')`},
	{"network", "#/s/s1web/network", "", `document.querySelector('[aria-label="Connections"]')`},
	{"processes", "#/s/s1web/processes", "", `document.querySelector('[aria-label="Tree of processes"]')`},
	{"metrics", "#/s/s1web/metrics", "", `document.querySelectorAll('.chart').length === 5`},
	{"snapshots", "#/s/s1web/snapshots", `document.querySelector('[aria-label="Comparison"] button').click()`, `document.querySelector('[aria-label="Files that differ"]')`},
	{"events", "#/s/s1web/events", "", `document.body.innerText.includes('sandbox.snapshot')`},
	{"agents", "#/turns", "", `document.querySelector('[aria-label="Assistants"]')`},
	{"chat", "#/chats/ch1", "", `document.querySelector('[role=log] .user')`},
	{"workspaces", "#/workspaces", "", `document.querySelector('[aria-label="Workspaces"]')`},
	{"workspace", "#/workspaces/notes", "", `document.querySelector('[aria-label="Files"]')`},
	{"images", "#/images", "", `document.querySelector('[aria-label="Images"]')`},
	{"pools", "#/pools", "", `document.querySelector('[aria-label="Pools"]')`},
	{"access", "#/access", "", `document.querySelector('[aria-label="Quota"] td') && document.querySelector('[aria-label="Quotas of all owners"] td')`},
	{"audit", "#/audit", "", `document.querySelector('[aria-label="Audited calls"]')`},
	{"drivers", "#/drivers", "", `document.querySelector('[aria-label="Drivers"]')`},
	{"settings", "#/settings", "", `document.querySelector('[aria-label="This browser"]')`},
	{"login", "", `(sessionStorage.clear(), location.reload())`, `document.querySelector('.knock input')`},
}

// TestLooks compares pictures of all views with golden ones, at three widths and in both themes. The answers of
// the API are those of testdata/looks.json, so that all pictures of a view are the same. After a change of looks,
// look at the new pictures: go test ./test/browser -run TestLooks -update
func TestLooks(t *testing.T) {
	b := sharedBrowser(t)
	axe := readAxe(t)
	server := httptest.NewServer(newLooksServer(t))
	defer server.Close()
	for _, light := range []bool{false, true} {
		p := b.Open(t, server.URL+"/ui/#token=atoll_looks", browser.Window{Width: 1440, Height: 900, Light: light, Half: true, Time: looksTime})
		p.WaitText(".link", "live")
		for i, v := range views {
			p.Eval(`(location.hash = '#/chats/none', null)`, nil) // so that the view begins anew
			p.WaitText(".problem", "looks.json does not have it")
			p.Eval(`(location.hash = `+quote(v.hash)+`, null)`, nil)
			p.Wait(`document.querySelector('main')`)
			if v.then != "" {
				p.Wait(`(() => { try { ` + v.then + `; return true } catch { return false } })()`)
			}
			p.Wait(`Boolean(` + v.ready + `)`)
			for _, width := range []int{1440, 768, 360} {
				p.Resize(width, 900)
				p.Eval(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))`, nil)
				name := fmt.Sprintf("%s-%s-%d", v.name, map[bool]string{true: "light", false: "dark"}[light], width)
				if over := overflow(p); over > 0 {
					t.Errorf("%s: the page is %d pixels too wide", name, over)
				}
				comparePicture(t, p, name)
			}
			if (i%2 == 0) == light { // each view once: dark or light, at 360 pixels
				checkAccessible(t, p, axe, v.name)
			}
			p.Eval(`(document.querySelector('dialog')?.close('no'), null)`, nil)
		}
		p.Close()
	}
}

// newLooksServer serves the console and the answers of testdata/looks.json.
func newLooksServer(t *testing.T) http.Handler {
	t.Helper()
	var data struct {
		Answers map[string]json.RawMessage
		Streams map[string][]json.RawMessage
	}
	if err := json.Unmarshal(looksAnswers, &data); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ui/", http.StripPrefix("/ui/", web.Handler()))
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("follow") != "false" {
			if list, ok := data.Streams[r.URL.Path]; ok {
				w.Header().Set("Content-Type", "text/event-stream")
				if r.URL.Path == "/v1/events" && r.URL.Query().Get("after") != "" { // again, after a time without an event
					list = nil
				}
				for _, e := range list {
					_, _ = fmt.Fprintf(w, "data: %s\n\n", bytes.ReplaceAll(e, []byte("\n"), nil)) // an error: the page is gone
				}
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				return
			}
		}
		answer, ok := data.Answers[r.URL.Path]
		if r.URL.Path == "/v1/events" {
			answer, ok = data.Answers["/v1/events?follow=false"], true
		}
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = []byte(`{"detail":"testdata/looks.json does not have it"}`)
		}
		_, _ = w.Write(answer) // an error: the page is gone
	})
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[{"name":"company","browser":true}]}`))
	})
	return mux
}

// Tolerances of pictures: another version of the browser or its fonts smooths letters in another way.
const (
	blockSize = 8     // pixels that are compared together; one is two by two of the page's
	maxColor  = 20    // of 255: difference of a block's mean color that does not count
	maxBlocks = 0.004 // part of the blocks that may differ
)

// lookTries is how often a picture is taken until it is the golden one: on a busy host a browser draws late.
const lookTries = 10

// comparePicture compares a page with the golden picture of a name, and draws that anew with -update.
func comparePicture(t *testing.T, p *browser.Page, name string) {
	t.Helper()
	file := filepath.Join("testdata", "looks", name+".png")
	if *update {
		writePicture(t, file, takePicture(t, p))
		return
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%v: make it with -update", err)
		return
	}
	want, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for tries := 1; ; tries++ {
		got := takePicture(t, p)
		if want.Bounds() != got.Bounds() {
			t.Errorf("%s: %v, want %v", name, got.Bounds(), want.Bounds())
			return
		}
		part := differingBlocks(got, withFewColors(want))
		if part <= maxBlocks {
			return
		}
		if tries == lookTries {
			t.Errorf("%s: %.1f %% of the picture differs from %s", name, part*100, file)
			if dir := os.Getenv("ATOLL_SCREENSHOTS"); dir != "" {
				writePicture(t, filepath.Join(dir, "differs-"+name+".png"), got)
			}
			return
		}
		p.Eval(`new Promise((done) => setTimeout(() => done(null), 300))`, nil)
	}
}

// takePicture returns a picture of a page as golden ones are stored.
func takePicture(t *testing.T, p *browser.Page) *image.RGBA {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(p.Picture()))
	if err != nil {
		t.Fatal(err)
	}
	return withFewColors(full)
}

// withFewColors returns a picture in 32768 colors: that makes small files.
func withFewColors(m image.Image) *image.RGBA {
	few := image.NewRGBA(m.Bounds())
	draw.Draw(few, few.Bounds(), m, m.Bounds().Min, draw.Src)
	for i, v := range few.Pix {
		few.Pix[i] = uint8(min(255, (int(v)+4)/8*8))
	}
	return few
}

// mean returns the mean red, green and blue, of 255, of a block.
func mean(m *image.RGBA, x, y int) (c [3]int) {
	for dy := range blockSize {
		row := m.Pix[(y+dy)*m.Stride+4*x:]
		for dx := range blockSize {
			for i := range c {
				c[i] += int(row[4*dx+i])
			}
		}
	}
	for i := range c {
		c[i] /= blockSize * blockSize
	}
	return c
}

// differingBlocks returns the part of the blocks of two pictures of the same size whose mean colors differ.
func differingBlocks(a, b *image.RGBA) float64 {
	size := a.Bounds().Size().Div(blockSize)
	differ := 0
	for y := range size.Y {
		for x := range size.X {
			one, two := mean(a, x*blockSize, y*blockSize), mean(b, x*blockSize, y*blockSize)
			for i := range one {
				if d := one[i] - two[i]; d > maxColor || -d > maxColor {
					differ++
					break
				}
			}
		}
	}
	return float64(differ) / float64(size.X*size.Y)
}

// writePicture writes a picture with at most 256 colors, the most frequent ones.
func writePicture(t *testing.T, file string, m *image.RGBA) {
	t.Helper()
	count := make(map[color.RGBA]int)
	for i := 0; i < len(m.Pix); i += 4 {
		count[color.RGBA{m.Pix[i], m.Pix[i+1], m.Pix[i+2], 255}]++
	}
	var palette color.Palette
	for c := range count {
		palette = append(palette, c)
	}
	slices.SortFunc(palette, func(a, b color.Color) int { // by frequency, then by color: the same picture gives the same file
		x, y := a.(color.RGBA), b.(color.RGBA)
		if n := count[y] - count[x]; n != 0 {
			return n
		}
		return int(x.R)<<16 + int(x.G)<<8 + int(x.B) - int(y.R)<<16 - int(y.G)<<8 - int(y.B)
	})
	palette = palette[:min(len(palette), 256)]
	p := image.NewPaletted(m.Bounds(), palette)
	for y := range m.Bounds().Dy() {
		for x := range m.Bounds().Dx() {
			p.Set(x, y, m.At(x, y))
		}
	}
	var b bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, p)
	if err == nil {
		err = os.WriteFile(file, b.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
