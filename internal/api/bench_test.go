package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkNew is what every call of the CLI pays for its own server.
func BenchmarkNew(b *testing.B) {
	s := newFleet(b, Options{})
	for b.Loop() {
		New(Options{Fleet: s.fleet})
	}
}

// BenchmarkRequest is what the way of a request costs.
func BenchmarkRequest(b *testing.B) {
	get := func(b *testing.B, client *http.Client, url, token string) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := http.NewRequestWithContext(b.Context(), "GET", url+"/v1/quota", nil)
			if err != nil {
				b.Fatal(err)
			}
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			resp, err := client.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
				b.Fatal(resp.Status, err)
			}
			resp.Body.Close()
		}
	}
	b.Run("TCP", func(b *testing.B) {
		s := newSite(b, Options{Limits: Limits{Rate: -1}})
		get(b, s.client, s.url, s.token)
	})
	b.Run("Unix", func(b *testing.B) {
		s := newLocal(b, Options{})
		get(b, s.client, s.url, "")
	})
	b.Run("Pipe", func(b *testing.B) {
		s := newFleet(b, Options{})
		l, dial := Pipe()
		s.serve(l)
		get(b, &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}}, "http://atoll", "")
	})
	b.Run("Handler", func(b *testing.B) {
		s := newFleet(b, Options{})
		r, err := http.NewRequestWithContext(context.WithValue(b.Context(), localKey{}, true), "GET", "http://atoll/healthz", strings.NewReader(""))
		if err != nil {
			b.Fatal(err)
		}
		r.RequestURI = "/healthz"
		h := s.server.Handler()
		b.ReportAllocs()
		for b.Loop() {
			h.ServeHTTP(&statusRecorder{header: make(http.Header)}, r)
		}
	})
}
