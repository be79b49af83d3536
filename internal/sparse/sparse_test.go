package sparse

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWriteEntry(t *testing.T) {
	content := make([]byte, 100_000)
	copy(content[1000:], "first")
	copy(content[70_000:], "second")
	for name, c := range map[string]struct {
		header   tar.Header
		segments []Segment
	}{
		"Holes":        {tar.Header{Name: "d/f", Mode: 0o640, Uid: 1000, Gid: 1 << 22}, []Segment{{1000, 5}, {70_000, 6}}},
		"LongName":     {tar.Header{Name: strings.Repeat("long/", 100) + "ü", Mode: 0o4755}, []Segment{{512, 1024}, {65536, 34_464}}},
		"BeforeEpoch":  {tar.Header{Name: "f", ModTime: time.Unix(-2, 250)}, []Segment{{0, 100_000}}},
		"NewlineInIt":  {tar.Header{Name: "a\n30 path=b\n", ModTime: time.Unix(1, 5e8)}, []Segment{{1000, 5}, {70_000, 6}}},
		"LooksLikeMap": {tar.Header{Name: "1"}, []Segment{{1000, 99_000}}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			tw := tar.NewWriter(&b)
			before := &tar.Header{Name: "before", Size: 3}
			if err := errors.Join(tw.WriteHeader(before), second(tw.Write([]byte("abc")))); err != nil {
				t.Fatal(err)
			}
			c.header.Size, c.header.Typeflag = int64(len(content)), tar.TypeReg
			if err := WriteEntry(&b, tw, &c.header, c.segments, bytes.NewReader(content)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(tw.WriteHeader(&tar.Header{Name: "after"}), tw.Close()); err != nil {
				t.Fatal(err)
			}
			tr := tar.NewReader(&b)
			for _, want := range []string{"before", c.header.Name, "after"} {
				h, err := tr.Next()
				if err != nil || h.Name != want {
					t.Fatalf("entry %+v, %v, want %q", h, err, want)
				}
				if want != c.header.Name {
					continue
				}
				got, err := io.ReadAll(tr)
				if err != nil || !bytes.Equal(got, content) {
					t.Errorf("the content has changed: %d bytes, %v", len(got), err)
				}
				if h.Mode != c.header.Mode || h.Uid != c.header.Uid || h.Gid != c.header.Gid || !h.ModTime.Equal(c.header.ModTime) && !c.header.ModTime.IsZero() {
					t.Errorf("header %+v, want %+v", h, c.header)
				}
			}
		})
	}
}

func second(_ int, err error) error { return err }

func TestWriteEntryOfCutContent(t *testing.T) {
	var b bytes.Buffer
	err := WriteEntry(&b, tar.NewWriter(&b), &tar.Header{Name: "f", Size: 100}, []Segment{{10, 20}}, strings.NewReader("short"))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
}

func TestLimit(t *testing.T) {
	in := []Segment{{0, 10}, {20, 10}, {31, 9}, {1000, 1}, {1003, 1}}
	for n, want := range map[int][]Segment{
		5: in,
		4: {{0, 10}, {20, 20}, {1000, 1}, {1003, 1}},
		3: {{0, 10}, {20, 20}, {1000, 4}},
		2: {{0, 40}, {1000, 4}},
		1: {{0, 1004}},
	} {
		if d := cmp.Diff(want, Limit(append([]Segment(nil), in...), n)); d != "" {
			t.Errorf("to %d: %s", n, d)
		}
	}
}

// TestMostSegments checks that Go's reader accepts the longest map.
func TestMostSegments(t *testing.T) {
	segments := make([]Segment, MaxSegments)
	const far = 1 << 53
	for i := range segments {
		segments[i] = Segment{far + int64(i)*1<<40, 1}
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	h := &tar.Header{Name: "f", Size: far + MaxSegments*1<<40}
	if err := errors.Join(WriteEntry(&b, tw, h, segments, ones{}), tw.Close()); err != nil {
		t.Fatal(err)
	}
	if h, err := tar.NewReader(&b).Next(); err != nil || h.Size != far+MaxSegments*1<<40 {
		t.Errorf("%+v, %v", h, err)
	}
}

type ones struct{}

func (ones) ReadAt(p []byte, _ int64) (int, error) {
	for i := range p {
		p[i] = 1
	}
	return len(p), nil
}

func TestCopyFile(t *testing.T) {
	failed := errors.New("of the reader")
	for name, c := range map[string]struct {
		content string
		err     error
	}{
		"Empty":      {"", nil},
		"Short":      {"content", nil},
		"OnlyZeros":  {strings.Repeat("\x00", 3*minHole+7), nil},
		"EndsInHole": {"x" + strings.Repeat("\x00", 5*minHole), nil},
		"Holes":      {strings.Repeat("y", 10) + strings.Repeat("\x00", 40*minHole) + "z", nil},
		"Fails":      {strings.Repeat("\x00", 2*minHole), failed},
		"Cut":        {"cut", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(t.TempDir() + "/f")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r := io.Reader(strings.NewReader(c.content))
			if c.err != nil {
				r = io.MultiReader(r, failing{c.err})
			}
			n, err := CopyFile(f, r)
			if !errors.Is(err, c.err) || n != int64(len(c.content)) {
				t.Errorf("%d, %v", n, err)
			}
			if got, err := os.ReadFile(f.Name()); c.err == nil && (err != nil || string(got) != c.content) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
