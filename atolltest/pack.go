package atolltest

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

// packedFilesAreWhole packs the files of a sandbox, as they are and as they were at a snapshot, and
// creates others with them.
func packedFilesAreWhole(e *env) {
	unpacker, ok := e.driver.(atoll.FileUnpacker)
	if !ok {
		return // an archive of the fleet then has the working directory
	}
	sb := e.newSandbox()
	e.runShell(sb, `mkdir -p /tmp/p/empty /tmp/p/d; cd /tmp/p; echo one >a; ln a hard; ln -s a soft; ln -s /none dangling
echo secret >d/mode; chmod 640 d/mode; chmod 711 d; echo x >'with space'; touch -t 200102030405 old`)
	const show = `cd /tmp/p; ls; cat a soft; cat d/mode; ls -l d/mode | cut -c1-10; ls -ld d | cut -c1-10; readlink soft dangling; test a -ef hard && echo linked; date -r old +%Y; cat 'with space'`
	want := e.runShell(sb, show)
	before := e.packFiles(sb, "")
	e.wantUnpacked(unpacker, before, show, want)
	if !e.features.Snapshot {
		return
	}
	if _, err := atoll.Snapshot(e.newContext(), sb, "packed"); err != nil {
		e.Fatalf("Snapshot: %v", err)
	}
	e.runShell(sb, "rm -r /tmp/p/d; echo two >/tmp/p/a")
	packer, _ := atoll.As[atoll.FilePacker](sb)
	_, err := packer.PackFiles(e.newContext(), "no-such-snapshot")
	if errors.Is(err, atoll.ErrUnsupported) {
		return
	}
	e.wantError(err, atoll.ErrNotFound, "PackFiles of an unknown snapshot")
	e.wantUnpacked(unpacker, e.packFiles(sb, "packed"), show, want)
	cut := before
	cut.ReadCloser = io.NopCloser(io.LimitReader(e.packFiles(sb, "").ReadCloser, 256)) // within a header: archive/tar takes a cut after one for the end
	left := len(e.listOwn())
	if _, err := unpacker.CreatePacked(e.newContext(), e.newSpec(), &cut); err == nil {
		e.Error("a sandbox was created from a part of its files")
	}
	wantEqual(e, "sandboxes after a failed CreatePacked", len(e.listOwn()), left)
}

// packFiles packs the files of a sandbox into memory.
func (e *env) packFiles(sb atoll.Sandbox, snapshot string) atoll.PackedFiles {
	e.Helper()
	packer, ok := atoll.As[atoll.FilePacker](sb)
	if !ok {
		e.Fatal("the driver is a FileUnpacker, and its sandboxes are no FilePackers")
	}
	p, err := packer.PackFiles(e.newContext(), snapshot)
	if err != nil {
		e.Fatalf("PackFiles: %v", err)
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(p)
	if err := errors.Join(err, p.Close()); err != nil {
		e.Fatalf("PackFiles: %v", err)
	}
	out := *p
	out.ReadCloser = io.NopCloser(&b)
	return out
}

// wantUnpacked creates a sandbox with packed files and compares what a command prints there.
func (e *env) wantUnpacked(d atoll.FileUnpacker, files atoll.PackedFiles, command, want string) {
	e.Helper()
	sb, err := d.CreatePacked(e.newContext(), e.newSpec(), &files)
	if err != nil {
		e.Fatalf("CreatePacked: %v", err)
	}
	defer func() {
		if err := sb.Destroy(e.newContext()); err != nil {
			e.Errorf("Destroy: %v", err)
		}
	}()
	wantEqual(e, "unpacked files", e.runShell(sb, command), want)
}

// listOwn lists the sandboxes that the law has created.
func (e *env) listOwn() []atoll.Status {
	e.Helper()
	list, err := e.driver.List(e.newContext())
	if err != nil {
		e.Fatalf("List: %v", err)
	}
	return slices.DeleteFunc(list, func(s atoll.Status) bool { return s.Labels[label] != e.Name() })
}
