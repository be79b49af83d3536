package guest

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// FuzzHostReadsFiles gives the host what a hostile guest might send: it ends,
// takes no more memory than came, and passes nothing on that a guest can't say.
func FuzzHostReadsFiles(f *testing.F) {
	stream := func(parts ...string) []byte {
		var b bytes.Buffer
		for _, p := range parts {
			_ = writeFrame(&b, FrameData, []byte(p)) // never fails
		}
		_ = writeDone(&b, nil) // likewise
		return b.Bytes()
	}
	info, _ := json.Marshal(fileInfo{Name: []byte("f"), Size: 1, Mode: 0o644, Time: 1})
	notice, _ := json.Marshal(atoll.Notice{Kind: atoll.NoticePortOpened, Port: 80})
	f.Add(stream(string(info), string(info)))
	f.Add(stream(string(notice)))
	f.Add(stream("{\"n\":", "\"Zg==\"}"))
	var failed bytes.Buffer
	_ = writeDone(&failed, atoll.ErrQuota) // never fails
	f.Add(failed.Bytes())
	f.Add([]byte("d\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, _ := io.ReadAll(&dataReader{r: bytes.NewReader(data)}) // that it ends counts
		if len(got) > len(data) {
			t.Fatalf("%d bytes of %d", len(got), len(data))
		}
		list, _ := readList(&dataReader{r: bytes.NewReader(data)})
		if len(list) > len(data) {
			t.Fatalf("%d files of %d bytes", len(list), len(data))
		}
		_ = readNotices(bytes.NewReader(data), func(n atoll.Notice) error {
			if n.Port < 0 || n.Port > 65535 || !knownKinds[n.Kind] {
				t.Fatalf("passed on: %+v", n)
			}
			return nil
		})
	})
}
