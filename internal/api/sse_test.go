package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// sse is one message of an event stream: its fields, "" for a comment's text.
type sse map[string]string

// follow opens an event stream.
func (s *site) follow(path string, headers ...string) (next func() (sse, error), hangUp func()) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		r.Header.Set(k, v)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("%d %s %s", resp.StatusCode, resp.Header, b)
	}
	in := bufio.NewReader(resp.Body)
	return func() (sse, error) { return readSSE(in) }, func() {
		cancel()
		resp.Body.Close()
	}
}

func readSSE(in *bufio.Reader) (sse, error) {
	m := make(sse)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			return m, nil
		}
		k, v, _ := strings.Cut(line, ":")
		m[k] = strings.TrimPrefix(v, " ")
	}
}

// await reads messages until one has the type, and checks their form.
func await(t *testing.T, next func() (sse, error), event string) (sse, atoll.Event) {
	t.Helper()
	for {
		m, err := next()
		if err != nil {
			t.Fatalf("waiting for %s: %v", event, err)
		}
		if m["event"] != event {
			continue
		}
		var e atoll.Event
		if err := json.Unmarshal([]byte(m["data"]), &e); err != nil || e.Type != event || m["id"] == "" {
			t.Fatalf("%v: %v", m, err)
		}
		return m, e
	}
}

func TestEvents(t *testing.T) {
	s := newSite(t, Options{})
	next, hangUp := s.follow("/v1/events?type=sandbox.*")
	defer hangUp()
	var box atoll.Info
	s.want(http.StatusCreated, &box, "POST", "/v1/sandboxes", `{"name":"one"}`)
	m, e := await(t, next, "sandbox.running")
	if e.Object != box.ID {
		t.Errorf("event %+v, sandbox %s", e, box.ID)
	}
	s.want(http.StatusCreated, nil, "POST", "/v1/sandboxes", `{"name":"two"}`)
	if _, e = await(t, next, "sandbox.running"); e.Name != "two" {
		t.Errorf("event %+v", e)
	}

	// Who comes again misses nothing and hears nothing twice.
	for _, how := range []func() (func() (sse, error), func()){
		func() (func() (sse, error), func()) { return s.follow("/v1/events", "Last-Event-ID: "+m["id"]) },
		func() (func() (sse, error), func()) { return s.follow("/v1/events?after=" + m["id"]) },
	} {
		again, bye := how()
		if _, e := await(t, again, "sandbox.running"); e.Name != "two" {
			t.Errorf("resumed with %+v", e)
		}
		bye()
	}
	s.want(http.StatusNoContent, nil, "DELETE", "/v1/sandboxes/one", "")
	var all wire.List[atoll.Event]
	s.want(http.StatusOK, &all, "GET", "/v1/events?follow=false&type=sandbox.running&object=two", "")
	if len(all.Items) != 1 || all.Items[0].Name != "two" {
		t.Errorf("listed %+v", all.Items)
	}
	m, _ = await(t, next, "sandbox.destroyed")
	all.Items = nil
	s.want(http.StatusOK, &all, "GET", "/v1/events?follow=false&after="+m["id"], "")
	if all.Items == nil || len(all.Items) != 0 {
		t.Errorf("listed %+v", all.Items)
	}
}

// A stream with nothing to say shows that it lives, from the first moment.
func TestHeartbeats(t *testing.T) {
	s := newSite(t, Options{Limits: Limits{Heartbeat: 20 * time.Millisecond}})
	next, hangUp := s.follow("/v1/events?type=pool.*")
	defer hangUp()
	for range 5 {
		if m, err := next(); err != nil || m["id"] != "" || m["data"] != "" {
			t.Fatalf("%v %v", m, err)
		}
	}
}

// HEAD of a stream ends at once: the connection can be used again.
func TestHeadOfAStream(t *testing.T) {
	s := newSite(t, Options{})
	for range 3 {
		if a := s.want(http.StatusOK, nil, "HEAD", "/v1/events", ""); a.header.Get("Content-Type") != sseContentType {
			t.Errorf("HEAD says %v", a.header)
		}
	}
	gone(t, s)
}

// A client that is gone is noticed: the stream's handler ends.
func TestVanishedListener(t *testing.T) {
	s := newSite(t, Options{Limits: Limits{Heartbeat: 20 * time.Millisecond}})
	next, hangUp := s.follow("/v1/events")
	if _, err := next(); err != nil {
		t.Fatal(err)
	}
	hangUp()
	gone(t, s)
}

// gone waits until no request is under way.
func gone(t *testing.T, s *site) {
	t.Helper()
	select {
	case <-s.server.active.idleChan():
	case <-time.After(time.Minute):
		t.Fatal("a request does not end")
	}
}

// A client that reads nothing holds up nobody for longer than the stall limit.
func TestSlowReader(t *testing.T) {
	s := newSite(t, Options{Limits: Limits{Stall: 300 * time.Millisecond, Heartbeat: time.Millisecond}})
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	// Thousands of pipelined requests whose answers nobody reads fill every buffer.
	ask := "GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + s.token + "\r\n\r\n"
	if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := io.WriteString(c, strings.Repeat(ask, 100)); err != nil {
			if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
				t.Fatal("the server waits for a reader that never reads")
			}
			break
		}
	}
	gone(t, s)
}

// A body that stops in the middle, or trickles, does not hold its request for
// ever.
func TestStalledBody(t *testing.T) {
	testenv.Logic(t)
	for law, limits := range map[string]Limits{"Stops": {Stall: 200 * time.Millisecond}, "Trickles": {BodyTime: 200 * time.Millisecond}} {
		t.Run(law, func(t *testing.T) {
			s := newSite(t, Options{Limits: limits})
			c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, "POST /v1/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "+s.token+
				"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			if err != nil || !strings.HasPrefix(line, "HTTP/1.1 408") {
				t.Errorf("answered %q, %v", line, err)
			}
		})
	}
}
