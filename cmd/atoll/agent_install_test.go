package main

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
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// startPackages starts an npm registry on loopback that has version 2.1.329 of
// every package, with one file, and puts its URL into a variable:
// packages FILE-IN-THE-PACKAGE CONTENT VARIABLE.
// At URL/forged what comes is not what the registry's digest is of.
func startPackages(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: packages FILE CONTENT VARIABLE")
	}
	content := ts.ReadFile(args[1])
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	ts.Check(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "package/" + args[0], Mode: 0o644, Size: int64(len(content))}))
	_, err := w.Write([]byte(content))
	ts.Check(errors.Join(err, w.Close(), z.Close()))
	sum := sha512.Sum512(b.Bytes())
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, version, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), "/forged"), "/"), "/")
		switch {
		case strings.HasPrefix(r.URL.Path, "/tgz"):
			_, _ = w.Write(b.Bytes()) // the client says what is wrong
			if r.URL.Path == "/tgz/forged" {
				_, _ = w.Write([]byte("more"))
			}
		case ok && version == "2.1.329":
			from := "/tgz"
			if strings.HasPrefix(r.URL.Path, "/forged") {
				from = "/tgz/forged"
			}
			fmt.Fprintf(w, `{"name":%q,"version":%q,"dist":{"tarball":"%s%s","integrity":"sha512-%s"}}`,
				strings.ReplaceAll(name, "%2f", "/"), version, srv.URL, from, base64.StdEncoding.EncodeToString(sum[:]))
		default:
			http.NotFound(w, r)
		}
	}))
	ts.Defer(srv.Close)
	ts.Setenv(args[2], srv.URL)
}
