package namespace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestRecordOfOlderVersion finds a stopped sandbox and its snapshot as the version before the
// shared record store has written them.
func TestRecordOfOlderVersion(t *testing.T) {
	d := newDriver(t)
	const id = "s0123456789ab"
	dir := filepath.Join(d.Dir, id)
	for name, text := range map[string]string{
		"sandbox.json": `{"id":"` + id + `","spec":{"name":"web","labels":{"a":"b"}},"created":"2026-11-01T10:00:00Z","state":"stopped",` +
			`"start":4711,"boot":"0e9f2d36-0000-4000-8000-000000000000","base":1879048192}`,
		"lock": "",
		"snapshots/s00000000000000aa/snapshot.json": `{"id":"s00000000000000aa","name":"first","sandbox":"` + id + `","created":"2026-11-01T10:01:00Z","size":5,"files":1,"base":1879048192}`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := d.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != id || list[0].State != atoll.Stopped || list[0].Labels["a"] != "b" {
		t.Fatalf("List: %+v, %v", list, err)
	}
	sb, err := d.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	snapshots, err := atoll.Snapshots(t.Context(), sb)
	if err != nil || len(snapshots) != 1 || snapshots[0].Name != "first" || snapshots[0].Files != 1 {
		t.Errorf("Snapshots: %+v, %v", snapshots, err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it is left: %v", err)
	}
}
