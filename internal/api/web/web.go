// Package web serves the web console: static files that use the server's API in a browser.
package web

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
)

// static holds the console as bundle builds it from source, including the licences of its
// packages.
//
//go:embed static
var static embed.FS

// styleMark is replaced in the page by the nonce of its styles: the terminal creates style
// elements for its colors.
const styleMark = "{{nonce}}"

// frameMark is replaced in the policy by the origins that the page may frame.
const frameMark = "{{frames}}"

// pageName is the file of the page. All others are served under their own names.
const pageName = "index.html"

// policy allows the page its own files and its own server only: nothing inline, no other origins,
// frames of ports of sandboxes only, which have other origins.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-" + styleMark + "'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; frame-src " + frameMark

// Handler serves the console below its mount point. It needs no authentication: the files hold no
// data of any owner. Frames are the sources, as a content security policy names them, of pages that
// the console may frame: ports of sandboxes.
func Handler(frames ...string) http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the embedded directory exists
	}
	h, err := NewHandler(files, frames...)
	if err != nil {
		panic(err) // it has all files
	}
	return h
}

// NewHandler serves the files of a console below its mount point, with the headers of Handler.
func NewHandler(files fs.FS, frames ...string) (http.Handler, error) {
	policy := strings.ReplaceAll(policy, frameMark, cmp.Or(strings.Join(frames, " "), "'none'"))
	page, err := fs.ReadFile(files, pageName)
	if err != nil {
		return nil, err
	}
	tags := make(map[string]string) // for caching by browsers
	all, err := fs.Glob(files, "*")
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		if name == pageName {
			continue
		}
		b, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
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
			_, _ = w.Write(bytes.ReplaceAll(page, []byte(styleMark), []byte(text))) // write errors mean that the client is gone
		case tags[r.URL.Path] != "":
			head.Set("ETag", tags[r.URL.Path])
			rest.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	}), nil
}
