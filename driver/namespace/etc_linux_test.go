package namespace_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestPrograms runs programs of the host that need its /etc.
func TestPrograms(t *testing.T) {
	sb, err := newDriver(t).Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Destroy(context.WithoutCancel(t.Context()))
	for program, text := range map[string]string{
		"python3": "python3 -c 'import ssl, json, ctypes; print(len(ssl.create_default_context().get_ca_certs()) > 0)' | grep True",
		"node":    "node -e 'console.log(require(\"os\").hostname().length > 0)'", "npm": "npm --version", "git": "git init -q r && git -C r status",
		"go": "PATH=$PATH:/usr/local/go/bin go version", "gcc": "echo 'int main(void){return 0;}' > a.c && gcc a.c -o a && ./a", "java": "java -version", "perl": "perl -MPOSIX -e 'print 1'",
		"curl": "curl --version", "ssh": "ssh -V", "vim": "vim --version", "less": "less --version", "cc": "cc --version", "awk": "awk 'BEGIN {}'",
	} {
		if _, err := os.Stat("/usr/bin/" + program); err != nil {
			if _, err := exec.LookPath(program); err != nil || program != "go" {
				continue // the host does not have it
			}
		}
		if exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: text}); err != nil || exit.Code != 0 {
			t.Errorf("%s: %v, code %d: %s%s", program, err, exit.Code, exit.Stdout, exit.Stderr)
		}
	}
}

// TestShow checks that a directory of the host is visible, and another beside it is not.
func TestShow(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("shown"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t)
	d.HostDirs = []string{dir}
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Destroy(context.WithoutCancel(t.Context()))
	if got := runShell(t, sb, "cat "+dir+"/file; touch "+dir+"/x 2>/dev/null || echo ' only'; ls "+filepath.Dir(dir)); got != "shown only\n"+filepath.Base(dir)+"\n" && strings.TrimSpace(got) != "shown only\n"+filepath.Base(dir) {
		t.Errorf("%q", got)
	}
}
