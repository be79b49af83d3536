package egress

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// web serves everything that programs of the test fetch.
func (o *outside) web() {
	o.t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s\n", r.Host) })
	o.git(mux)
	o.npm(mux)
	o.pip(mux)
	o.apt(mux)
	for _, at := range []string{public + ":80", public2 + ":80", private + ":80", "169.254.169.254:80", "127.0.0.1:4873"} {
		s := &http.Server{Handler: mux} //nolint:gosec // a test's
		go s.Serve(o.listen(at))
		o.t.Cleanup(func() { s.Close() })
	}
}

func (o *outside) git(mux *http.ServeMux) {
	o.t.Helper()
	dir := filepath.Join(o.dir, "git")
	script := `set -e; git init -q -b main ` + dir + `/work; cd ` + dir + `/work; echo content > file; git add file
git -c user.name=a -c user.email=a@b commit -qm one; git clone -q --bare . ../repo.git; touch ../repo.git/git-daemon-export-ok`
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		o.t.Fatalf("%v: %s", err, out)
	}
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		o.t.Fatal(err)
	}
	mux.Handle("/repo.git/", &cgi.Handler{
		Path: strings.TrimSpace(string(path)) + "/git-http-backend", Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
	cmd := exec.Command(strings.TrimSpace(string(path))+"/git-daemon", "--base-path="+dir, "--listen="+public, "--port=9418", "--reuseaddr", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	o.do(func() { err = cmd.Start() })
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
}

func (o *outside) npm(mux *http.ServeMux) {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	tw := tar.NewWriter(gz)
	manifest := `{"name":"tiny","version":"1.0.0","main":"index.js"}`
	for name, text := range map[string]string{"package/package.json": manifest, "package/index.js": "module.exports = 'tiny works'\n"} {
		_ = tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		_, _ = io.WriteString(tw, text)
	}
	_, _ = tw.Close(), gz.Close()
	sum := sha1.Sum(b.Bytes())
	mux.HandleFunc("/npm/tiny", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"name": "tiny", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{
				"name": "tiny", "version": "1.0.0",
				"dist": map[string]string{"tarball": "http://" + r.Host + "/npm/tiny.tgz", "shasum": fmt.Sprintf("%x", sum), "integrity": "sha1-" + base64.StdEncoding.EncodeToString(sum[:])},
			}},
		})
	})
	mux.HandleFunc("/npm/tiny.tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b.Bytes()) })
}

func (o *outside) pip(mux *http.ServeMux) {
	var b bytes.Buffer
	zw := zip.NewWriter(&b)
	for name, text := range map[string]string{
		"tiny.py": "print('tiny works')\n", "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
		"tiny-1.0.dist-info/WHEEL":  "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"tiny-1.0.dist-info/RECORD": "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\ntiny-1.0.dist-info/RECORD,,\n",
	} {
		w, _ := zw.Create(name)
		_, _ = io.WriteString(w, text)
	}
	_ = zw.Close()
	mux.HandleFunc("/simple/tiny/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!DOCTYPE html><html><body><a href="/pip/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a></body></html>`)
	})
	mux.HandleFunc("/pip/tiny-1.0-py3-none-any.whl", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b.Bytes()) })
}

func (o *outside) apt(mux *http.ServeMux) {
	dir := filepath.Join(o.dir, "apt")
	script := `set -e; mkdir -p ` + dir + `/p/DEBIAN; cd ` + dir + `; printf 'Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n' > p/DEBIAN/control
chmod 0755 p/DEBIAN; dpkg-deb -b p tiny_1.0_all.deb >/dev/null
{ dpkg-deb -f tiny_1.0_all.deb; echo Filename: ./tiny_1.0_all.deb; echo Size: $(stat -c %s tiny_1.0_all.deb); echo SHA256: $(sha256sum tiny_1.0_all.deb | cut -d' ' -f1); } > Packages`
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		o.t.Fatalf("%v: %s", err, out)
	}
	mux.Handle("/apt/", http.StripPrefix("/apt/", http.FileServer(http.Dir(dir))))
}
