package main

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing/fstest"
	"time"

	"github.com/atoll-sandbox/atoll/internal/api/web"
)

// serve serves the console as its source is at each load of the page, and passes other requests on
// to the server at the URL api.
func serve(address, api, modules string) error {
	to, err := url.Parse(api)
	if err != nil {
		return fmt.Errorf("-api: %w", err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Del("Origin") // it is this address
	}}
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("GET /ui/", func(w http.ResponseWriter, r *http.Request) {
		h, err := buildHandler(modules)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.StripPrefix("/ui/", h).ServeHTTP(w, r)
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

// buildHandler builds the console and returns a handler of it.
func buildHandler(modules string) (http.Handler, error) {
	files, err := build(sourceDir, modules)
	if err != nil {
		return nil, err
	}
	kept := make(fstest.MapFS)
	for name, data := range files {
		kept[name] = &fstest.MapFile{Data: data}
	}
	return web.NewHandler(kept)
}
