package virtual

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/vfs"
)

// makeOld gives the directory of a stored sandbox the form that it had without a log.
func makeOld(t *testing.T, d *Driver, id string) {
	t.Helper()
	base, err := d.openBase()
	if err != nil {
		t.Fatal(err)
	}
	dir := newDirectory(filepath.Join(d.Dir, id), base)
	if _, err := dir.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer dir.close()
	r, past, err := dir.read()
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := vfs.OpenDir(filepath.Join(dir.path, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	used, err := usedBlobs(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	for key := range used {
		data, err := dir.Get(key)
		if err == nil {
			err = blobs.Put(key, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Version, r.Added, r.Swept = oldRecordVersion, 0, 0
	for name, v := range map[string]any{oldRecordName: r, oldHistoryName: past, oldLockName: nil} {
		b, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir.path, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir.path, logName)); err != nil {
		t.Fatal(err)
	}
}

func TestOldDirectoryIsConverted(t *testing.T) {
	dir := t.TempDir()
	first := &Driver{Dir: dir}
	sb, err := first.Create(t.Context(), atoll.Spec{Name: "box"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := atoll.Execute(t.Context(), sb, "x=7; mkdir /w; cd /w; echo small > f; head -c 200000 /dev/zero > big"); err != nil {
		t.Fatal(err)
	}
	if _, err := atoll.Snapshot(t.Context(), sb, "here"); err != nil {
		t.Fatal(err)
	}
	if _, err := atoll.Execute(t.Context(), sb, "rm big; echo new > f"); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	makeOld(t, first, sb.ID())

	d := &Driver{Dir: dir}
	list, err := d.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "box" || list[0].State != atoll.Running {
		t.Fatalf("List: %+v, %v", list, err)
	}
	again, err := d.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	show := func(want string) {
		t.Helper()
		r, err := atoll.Execute(t.Context(), again, "pwd; echo $x; cat f; ls")
		if err != nil || r.Stdout != want {
			t.Fatalf("got %q (%s), %v, want %q", r.Stdout, r.Stderr, err, want)
		}
	}
	show("/w\n7\nnew\nf\n")
	h, err := again.(atoll.Historian).History(t.Context())
	if err != nil || len(h) != 3 || h[1].Command != "rm big; echo new > f" {
		t.Errorf("History: %+v, %v", h, err)
	}
	if err := atoll.Restore(t.Context(), again, "here"); err != nil {
		t.Fatal(err)
	}
	show("/w\n7\nsmall\nbig\nf\n")
	entries, err := os.ReadDir(filepath.Join(dir, sb.ID()))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	if !slices.Equal(names, []string{"blobs", "log"}) {
		t.Errorf("the directory has %q", names)
	}
	blobs, err := vfs.OpenDir(filepath.Join(dir, sb.ID(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	if keys, err := blobs.Keys(); err != nil || len(keys) != 1 { // 200,000 zeros are blocks of 64 KiB, all the same, and a rest for the log
		t.Errorf("blobs: %v, %v", keys, err)
	}
}

// TestIdleSandboxIsUnloaded checks that an idle sandbox has nothing open, that its history is stored, and that it
// goes on where it was.
func TestIdleSandboxIsUnloaded(t *testing.T) {
	d := &Driver{Dir: t.TempDir()}
	made, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	s := made.(*Sandbox)
	if _, err := atoll.Execute(t.Context(), s, "x=5; cd /tmp"); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(d.Dir, s.id, logName))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	if _, err := s.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	if now := size(); now != before {
		t.Errorf("a command that changes nothing wrote %d bytes", now-before)
	}
	d.idle.release(s)
	if s.fs != nil || s.k != nil || s.sh != nil {
		t.Error("an idle sandbox has its files in memory")
	}
	if now := size(); now == before {
		t.Error("the history of an idle sandbox is not stored")
	}
	other, err := (&Driver{Dir: d.Dir}).Open(t.Context(), s.id)
	if err != nil {
		t.Fatal(err)
	}
	for _, sb := range []atoll.Sandbox{other, s} {
		h, err := sb.(atoll.Historian).History(t.Context())
		if err != nil || len(h) != 2 || h[1].Command != "true" {
			t.Errorf("History: %+v, %v", h, err)
		}
	}
	if r, err := atoll.Execute(t.Context(), s, "echo $x; pwd"); err != nil || r.Stdout != "5\n/tmp\n" {
		t.Errorf("after it was idle: %+v, %v", r, err)
	}
}

// TestLogIsCompacted checks that the log does not grow with the number of changes.
func TestLogIsCompacted(t *testing.T) {
	d := &Driver{Dir: t.TempDir()}
	s, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		if _, err := atoll.Execute(t.Context(), s, "n=$((n + 1)); echo $n > /f"); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(d.Dir, s.ID(), logName))
	if err != nil || info.Size() > 2*minCompact {
		t.Errorf("the log has %d bytes, %v", info.Size(), err)
	}
	again, err := (&Driver{Dir: d.Dir}).Open(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := atoll.Execute(t.Context(), again, "cat /f; echo $n"); err != nil || r.Stdout != "300\n300\n" {
		t.Errorf("after compactions: %+v, %v", r, err)
	}
	if h, err := again.(atoll.Historian).History(t.Context()); err != nil || len(h) != historyLength {
		t.Errorf("the history has %d results, %v", len(h), err)
	}
}

// TestLargeBlobsAreSweptByNeed checks that what a sweep has left is remembered: a sandbox with much content is not
// swept at every change.
func TestLargeBlobsAreSweptByNeed(t *testing.T) {
	d := &Driver{Dir: t.TempDir()}
	made, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	s := made.(*Sandbox)
	run := func(script string) {
		t.Helper()
		if r, err := atoll.Execute(t.Context(), s, script); err != nil || !r.Success {
			t.Fatalf("%s: %+v, %v", script, r, err)
		}
	}
	run("head -c 3932160 /dev/urandom > /kept")
	run("head -c 589824 /dev/urandom > /noise")
	if s.dir.added != 589_824 || s.dir.swept != 3_932_160 {
		t.Errorf("added %d and swept %d bytes", s.dir.added, s.dir.swept)
	}
	for range 6 {
		run("head -c 589824 /dev/urandom > /noise")
	}
	if s.dir.swept != 4_521_984 {
		t.Errorf("after more was added than is used: swept %d bytes, added %d", s.dir.swept, s.dir.added)
	}
	run("wc -c < /kept; echo done > /f")
}
