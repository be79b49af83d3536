// Package web is the page of terminals: what a browser loads before it talks
// with a server's API.
package web

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
)

// static has the page as bundle made it of source; the licences of what is in
// it are among its files.
//
//go:embed static
var static embed.FS

// styleMark stands in the page where the nonce of its styles comes: the
// terminal makes style elements for its colours.
const styleMark = "{{nonce}}"

// kept are the files beside the page.
var kept = []string{"app.js", "app.css", "icon.svg", "LICENSES.txt"}

// policy lets the page load what is beside it and talk to where it is from:
// nothing inline, nobody else's, and nobody may put it in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-" + styleMark + "'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page and what belongs to it, below where it is mounted. It
// asks nobody who they are: there is nothing of anybody's in it.
func Handler() http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the name is right, or no test passes
	}
	page, err := fs.ReadFile(files, "index.html")
	if err != nil {
		panic(err) // likewise
	}
	tags := make(map[string]string) // of what browsers keep: a slow network carries it once
	for _, name := range kept {
		b, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err) // likewise
		}
		tags[name] = fmt.Sprintf(`"%x"`, sha256.Sum256(b))
	}
	rest := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", strings.ReplaceAll(policy, " 'nonce-"+styleMark+"'", ""))
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cache-Control", "no-cache")
		switch {
		case r.URL.Path == "":
			nonce := make([]byte, 16)
			_, _ = rand.Read(nonce) // never fails
			text := base64.StdEncoding.EncodeToString(nonce)
			head.Set("Content-Security-Policy", strings.ReplaceAll(policy, styleMark, text))
			head.Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write(bytes.ReplaceAll(page, []byte(styleMark), []byte(text))) // who is gone reads no pages
		case tags[r.URL.Path] != "":
			head.Set("ETag", tags[r.URL.Path])
			rest.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}
