package about

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// packageOf returns a package with files, as a registry has it.
func packageOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestSetupPythonBelievesNoRegistry: a registry that has another package under the name, with a digest that fits to it, installs
// nothing.
func TestSetupPythonBelievesNoRegistry(t *testing.T) {
	content := packageOf(t, map[string]string{"LICENSE": "", "dist/" + helper.PythonFile: "\x00asm\x01\x00\x00\x00"})
	sum := sha512.Sum512(content)
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			_, _ = w.Write(content)
			return
		}
		fmt.Fprintf(w, `{"name":%q,"version":%q,"dist":{"tarball":"%s/p.tgz","integrity":"sha512-%s"}}`, helper.PythonPackage, helper.PythonVersion, server.URL, base64.StdEncoding.EncodeToString(sum[:]))
	}))
	defer server.Close()
	cache, helpers := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(helpers, helper.PythonProgram), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"npm_config_registry": server.URL, "XDG_CACHE_HOME": cache, "HOME": cache, "ATOLL_HELPERS": helpers, "ATOLL_PYTHON": ""} {
		t.Setenv(name, value)
	}
	var out, progress bytes.Buffer
	a := commands{&app.App{Streams: tty.Streams{Out: &out, Err: &progress}}}
	err := a.installPython(t.Context())
	if !errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), helper.PythonDigest) || out.Len() > 0 {
		t.Errorf("%v %s", err, out.String())
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "atoll", "*")); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}
