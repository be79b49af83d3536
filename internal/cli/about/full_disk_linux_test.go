package about

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/testing/smalldisk"
)

// TestDoctorReportsFullDisk: on a disk without space the small file of the check can still be written.
func TestDoctorReportsFullDisk(t *testing.T) {
	if !smalldisk.Enter(t) {
		return
	}
	d := smalldisk.Mount(t, 64<<20)
	home := filepath.Join(d.Dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	a := commands{&app.App{Home: home}}
	if f := a.checkHome(); !f.OK {
		t.Errorf("with space: %+v", f)
	}
	d.Fill(0)
	if f := a.checkHome(); f.OK || !strings.Contains(f.Detail, "no space left") || f.Fix == "" {
		t.Errorf("without space: %+v", f)
	}
}
