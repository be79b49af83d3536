package fleet

import (
	"context"
	"crypto/tls"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/fleet/webhook"
)

// receiver is a server for webhooks, whose name leads to a public address in the fleet of a test.
type receiver struct {
	opts webhook.Options

	mu     sync.Mutex
	status int // of its answers; guarded by mu, as below
	got    []received
	news   chan struct{}
}

type received struct {
	id    string
	event atoll.Event
}

const receiverURL = "https://hooks.test/in"

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{status: http.StatusNoContent, news: make(chan struct{}, 1)}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		m := received{id: q.Header.Get("webhook-id")}
		if err := json.Unmarshal(body, &m.event); err != nil {
			t.Errorf("received %q: %v", body, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, m)
		w.WriteHeader(r.status)
		notify(r.news)
	}))
	t.Cleanup(srv.Close)
	conf := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	conf.ServerName = "example.com"
	conf.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	r.opts = webhook.Options{
		TLS: conf,
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
		},
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, srv.Listener.Addr().String())
		},
	}
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// take returns what was received since the last call.
func (r *receiver) take() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

func namesOf(list []received) string {
	var all []string
	for _, m := range list {
		all = append(all, m.event.Name)
	}
	return strings.Join(all, " ")
}

func openWebhookFleet(t testing.TB, home string, r *receiver, now func() time.Time) *Fleet {
	t.Helper()
	return openFleet(t, Options{Home: home, Drivers: []atoll.Driver{virtual.New()}, Now: now, Webhooks: r.opts})
}

// feedOnce creates the deliveries of the stored events.
func feedOnce(t testing.TB, f *Fleet) {
	t.Helper()
	after, exist, err := f.webhookStart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !exist {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := f.feedFrom(ctx, after, func() { cancel() }); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
}

// sendOnce makes an attempt at each delivery that is due, and returns how many there were.
func sendOnce(t testing.TB, f *Fleet) (n int) {
	t.Helper()
	o := f.opts.Webhooks
	o.Now = f.now
	s := webhook.NewSender(o)
	defer s.Close()
	hooks, err := f.queryTargets(t.Context(), f.registry.DB)
	if err != nil {
		t.Fatal(err)
	}
	for i := range hooks {
		for more := true; more; {
			if more, _, err = f.sendNext(t.Context(), s, hooks[i].ID); err != nil {
				t.Fatal(err)
			} else if more {
				n++
			}
		}
	}
	return n
}

func mustWebhook(t testing.TB, a *Account, w atoll.Webhook) atoll.Webhook {
	t.Helper()
	if w.URL == "" {
		w.URL = receiverURL
	}
	made, err := a.CreateWebhook(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func accountOf(f *Fleet, o atoll.Owner) *Account {
	return f.Account(Caller{Owner: o, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
}

func TestWebhookReceives(t *testing.T) {
	r := newReceiver(t)
	f := openWebhookFleet(t, "", r, nil)
	a, b, admin := accountOf(f, alice), accountOf(f, bob), f.Account(LocalCaller())
	emitEvents(t, f, atoll.Event{Owner: alice, Type: "sandbox.created", Name: "before"})
	for _, k := range []struct {
		law  string
		a    *Account
		hook atoll.Webhook
		want string
	}{
		{"OwnOnly", a, atoll.Webhook{}, "one two"},
		{"OfAnother", b, atoll.Webhook{}, "three"},
		{"Types", a, atoll.Webhook{Types: []string{"sandbox.*"}}, "one"},
		{"ExactType", a, atoll.Webhook{Types: []string{"process.exited"}}, "two"},
		{"AllOwners", admin, atoll.Webhook{AllOwners: true, Types: []string{"sandbox.*", "process.*"}}, "one two three"},
		{"OfAnotherByAdmin", admin, atoll.Webhook{Owner: bob}, "three"},
	} {
		t.Run(k.law, func(t *testing.T) {
			w := mustWebhook(t, k.a, k.hook)
			first := atoll.Event{Owner: alice, Type: "sandbox.created", Object: "s1", Name: "one", Message: "m", Data: map[string]string{"k": "v"}}
			emitEvents(t, f, first, atoll.Event{Owner: alice, Type: "process.exited", Name: "two"}, atoll.Event{Owner: bob, Type: "sandbox.created", Name: "three"})
			feedOnce(t, f)
			sendOnce(t, f)
			got := slices.DeleteFunc(r.take(), func(m received) bool { return strings.HasPrefix(m.event.Type, "webhook.") })
			if namesOf(got) != k.want {
				t.Errorf("received %q, want %q", namesOf(got), k.want)
			}
			w, err := k.a.Webhook(t.Context(), w.ID)
			if err != nil || w.Pending != 0 || w.Delivered.IsZero() || !w.Failed.IsZero() || w.Secret != "" {
				t.Errorf("afterwards %+v, %v", w, err)
			}
			if err := k.a.RemoveWebhook(t.Context(), w.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// A fleet that ends between an event and its delivery sends it when it is opened again, once.
func TestWebhookSurvivesRestart(t *testing.T) {
	r, home := newReceiver(t), t.TempDir()
	open := func() *Fleet {
		f, err := Open(t.Context(), withPostgres(Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "s")}}, Webhooks: r.opts}))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := open()
	mustWebhook(t, accountOf(f, alice), atoll.Webhook{Types: []string{"sandbox.*"}})
	emitEvents(t, f, atoll.Event{Owner: alice, Type: "sandbox.created", Name: "fed"})
	feedOnce(t, f)
	emitEvents(t, f, atoll.Event{Owner: alice, Type: "sandbox.created", Name: "stored"})
	closeFleet(t, f)
	f = open()
	feedOnce(t, f)
	feedOnce(t, f)
	sendOnce(t, f)
	if got := namesOf(r.take()); got != "fed stored" {
		t.Errorf("received %q", got)
	}
	closeFleet(t, f)
	f = open()
	feedOnce(t, f)
	sendOnce(t, f)
	if got := namesOf(r.take()); got != "" {
		t.Errorf("received again: %q", got)
	}
	closeFleet(t, f)
}

// Attempts are repeated with growing delays, with the same id, and then given up; what was given up
// can be sent again.
func TestWebhookRetries(t *testing.T) {
	r, c := newReceiver(t), newFakeClock()
	f := openWebhookFleet(t, "", r, c.now)
	a := accountOf(f, alice)
	hook := mustWebhook(t, a, atoll.Webhook{Name: "ci", Types: []string{"sandbox.*"}})
	emitEvents(t, f, atoll.Event{Owner: alice, Type: "sandbox.created", Name: "one"})
	feedOnce(t, f)
	r.answer(http.StatusInternalServerError)
	ids := make(map[string]bool)
	for i, d := range append([]time.Duration{0}, webhookDelays...) {
		if d > 0 {
			c.advance(d - time.Millisecond)
			if n := sendOnce(t, f); n != 0 {
				t.Fatalf("attempt %d came before %v", i+1, d)
			}
			c.advance(d/5 + time.Second)
		}
		if n := sendOnce(t, f); n != 1 {
			t.Fatalf("attempt %d: %d attempts", i+1, n)
		}
		for _, m := range r.take() {
			ids[m.id] = true
		}
	}
	if len(ids) != 1 {
		t.Errorf("the attempts had the ids %v", ids)
	}
	c.advance(1000 * time.Hour)
	if n := sendOnce(t, f); n != 0 {
		t.Errorf("%d attempts after the last", n)
	}
	dead, err := a.Deliveries(t.Context(), "ci", atoll.DeliveryDead, 0)
	if err != nil || len(dead) != 1 || dead[0].Attempts != len(webhookDelays)+1 || dead[0].Status != 500 || !strings.Contains(dead[0].Error, "500") || dead[0].Event.Name != "one" || !dead[0].Next.IsZero() {
		t.Fatalf("%+v, %v", dead, err)
	}
	if w, err := a.Webhook(t.Context(), "ci"); err != nil || w.Dead != 1 || w.Pending != 0 || w.Failed.IsZero() || w.LastError == "" {
		t.Errorf("%+v, %v", w, err)
	}
	for id, want := range map[string]error{"m00000000000": atoll.ErrNotFound, dead[0].ID: nil} {
		if n, err := a.Redeliver(t.Context(), "ci", id); !errors.Is(err, want) || (want == nil) != (n == 1) {
			t.Errorf("redeliver %s: %d, %v", id, n, err)
		}
	}
	r.answer(http.StatusOK)
	if sendOnce(t, f); namesOf(r.take()) != "one" {
		t.Error("it was not delivered again")
	}
	if n, err := a.Redeliver(t.Context(), hook.ID, ""); n != 0 || err != nil {
		t.Errorf("redeliver none: %d, %v", n, err)
	}
}

// A webhook that is disabled gets nothing, and later not what happened meanwhile.
func TestWebhookDisabled(t *testing.T) {
	r := newReceiver(t)
	f := openWebhookFleet(t, "", r, nil)
	a := accountOf(f, alice)
	mustWebhook(t, a, atoll.Webhook{Name: "ci", Types: []string{"sandbox.*"}})
	for _, disabled := range []bool{true, false} {
		if w, err := a.UpdateWebhook(t.Context(), "ci", atoll.WebhookChange{Disabled: &disabled}); err != nil || w.Disabled != disabled || w.Secret != "" {
			t.Fatal(w, err)
		}
		emitEvents(t, f, atoll.Event{Owner: alice, Type: "sandbox.created", Name: fmt.Sprint(disabled)})
		feedOnce(t, f)
		sendOnce(t, f)
	}
	if got := namesOf(r.take()); got != "false" {
		t.Errorf("received %q", got)
	}
}

func TestWebhookSecretIsShownOnce(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	a := accountOf(f, alice)
	w := mustWebhook(t, a, atoll.Webhook{Name: "ci"})
	if !strings.HasPrefix(w.Secret, "whsec_") {
		t.Errorf("secret %q", w.Secret)
	}
	list, err := a.Webhooks(t.Context())
	if err != nil || len(list) != 1 || list[0].Secret != "" {
		t.Errorf("%+v, %v", list, err)
	}
	renewed, err := a.UpdateWebhook(t.Context(), "ci", atoll.WebhookChange{RenewSecret: true})
	if err != nil || renewed.Secret == w.Secret || !strings.HasPrefix(renewed.Secret, "whsec_") {
		t.Errorf("renewed %+v, %v", renewed, err)
	}
	entries, err := f.Account(LocalCaller()).Audit(t.Context(), AuditFilter{AllOwners: true})
	if text := fmt.Sprintf("%+v", entries); err != nil || strings.Contains(text, w.Secret) || !strings.Contains(text, "create webhook") || !strings.Contains(text, "update webhook") {
		t.Errorf("audit %s, %v", text, err)
	}
}

func TestWebhookRights(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	a, m := accountOf(f, alice), accountOf(f, bob)
	reader := f.Account(Caller{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead}})
	w := mustWebhook(t, a, atoll.Webhook{Name: "ci"})
	all := mustWebhook(t, f.Account(LocalCaller()), atoll.Webhook{Owner: alice, Name: "all", AllOwners: true})
	disabled := true
	for law, k := range map[string]struct {
		err  error
		want error
	}{
		"ReaderCreates":  {second(reader.CreateWebhook(t.Context(), atoll.Webhook{URL: receiverURL})), atoll.ErrDenied},
		"ReaderChanges":  {second(reader.UpdateWebhook(t.Context(), "ci", atoll.WebhookChange{Disabled: &disabled})), atoll.ErrDenied},
		"ReaderRemoves":  {reader.RemoveWebhook(t.Context(), "ci"), atoll.ErrDenied},
		"ReaderRepeats":  {second(reader.Redeliver(t.Context(), "ci", "")), atoll.ErrDenied},
		"ReaderReads":    {second(reader.Webhook(t.Context(), "ci")), nil},
		"OtherReads":     {second(m.Webhook(t.Context(), w.ID)), atoll.ErrNotFound},
		"OtherChanges":   {second(m.UpdateWebhook(t.Context(), w.ID, atoll.WebhookChange{Disabled: &disabled})), atoll.ErrNotFound},
		"OtherRemoves":   {m.RemoveWebhook(t.Context(), w.ID), atoll.ErrNotFound},
		"OtherLists":     {second(m.Deliveries(t.Context(), w.ID, atoll.DeliveryDead, 0)), atoll.ErrNotFound},
		"OtherRepeats":   {second(m.Redeliver(t.Context(), w.ID, "")), atoll.ErrNotFound},
		"ForAnother":     {second(a.CreateWebhook(t.Context(), atoll.Webhook{URL: receiverURL, Owner: bob})), atoll.ErrDenied},
		"AllOwners":      {second(a.CreateWebhook(t.Context(), atoll.Webhook{URL: receiverURL, AllOwners: true})), atoll.ErrDenied},
		"TakesAllOwners": {second(a.UpdateWebhook(t.Context(), all.ID, atoll.WebhookChange{RenewSecret: true})), atoll.ErrDenied},
		"ReadsAllOwners": {second(a.Deliveries(t.Context(), all.ID, atoll.DeliveryPending, 0)), atoll.ErrDenied},
		"SecondOfAName":  {second(a.CreateWebhook(t.Context(), atoll.Webhook{URL: receiverURL, Name: "ci"})), atoll.ErrExists},
		"BadState":       {second(a.Deliveries(t.Context(), "ci", "x", 0)), atoll.ErrInvalid},
		"BadType":        {second(a.CreateWebhook(t.Context(), atoll.Webhook{URL: receiverURL, Types: []string{"*"}})), atoll.ErrInvalid},
	} {
		if !errors.Is(k.err, k.want) || k.want == nil && k.err != nil {
			t.Errorf("%s: %v, want %v", law, k.err, k.want)
		}
	}
	for _, url := range []string{"", "hooks.test", "ftp://hooks.test/", "https://", "https://u:p@hooks.test/", "https://hooks.test/#x", "https:opaque", "https://" + strings.Repeat("x", 2048), "file:///etc/passwd", "https://hooks.test:99999999/"} {
		if _, err := a.CreateWebhook(t.Context(), atoll.Webhook{URL: url}); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("URL %.40q: %v", url, err)
		}
	}
	for _, url := range []string{"http://hooks.test/", "http://8.8.8.8/", "https://127.0.0.1/", "https://[::1]:8443/", "https://10.0.0.7/", "https://[::ffff:10.0.0.7]/", "https://[64:ff9b::a00:7]/"} {
		if _, err := a.CreateWebhook(t.Context(), atoll.Webhook{URL: url}); !errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), "webhooks.allow") {
			t.Errorf("URL %s: %v, want an error that names webhooks.allow", url, err)
		}
		if _, err := a.UpdateWebhook(t.Context(), "ci", atoll.WebhookChange{URL: &url}); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("change to %s: %v", url, err)
		}
	}
	for range maxWebhooks - 2 {
		mustWebhook(t, a, atoll.Webhook{})
	}
	if _, err := a.CreateWebhook(t.Context(), atoll.Webhook{URL: receiverURL}); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("one too many: %v", err)
	}
	if list, err := m.Webhooks(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("bob sees %+v, %v", list, err)
	}
}

// second returns the error of a call with two results.
func second[T any](_ T, err error) error { return err }

// What waits and what was given up is bounded.
func TestWebhookBounds(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, "", c.now)
	a := accountOf(f, alice)
	w := mustWebhook(t, a, atoll.Webhook{Name: "ci"})
	page := make([]atoll.Event, maxPendingDeliveries+maxDeadDeliveries+5)
	for i := range page {
		page[i] = atoll.Event{ID: int64(100 + i), Owner: alice, Type: "x", Name: fmt.Sprint(i)}
	}
	if _, err := f.storeDeliveries(t.Context(), page, 1); err != nil {
		t.Fatal(err)
	}
	trim := func() {
		t.Helper()
		if err := f.registry.Write(t.Context(), func(tx *sql.Tx) error { return trimDeliveries(t.Context(), tx, f.now().Add(-deadRetention)) }); err != nil {
			t.Fatal(err)
		}
	}
	if w, err := a.Webhook(t.Context(), w.ID); err != nil || w.Pending != maxPendingDeliveries || w.Dead != maxDeadDeliveries {
		t.Errorf("%+v, %v", w, err)
	}
	dead, err := a.Deliveries(t.Context(), "ci", atoll.DeliveryDead, 1)
	if err != nil || len(dead) != 1 || dead[0].Event.Name != fmt.Sprint(maxPendingDeliveries+5) || !strings.Contains(dead[0].Error, "limit") {
		t.Errorf("the oldest of the dead: %+v, %v", dead, err)
	}
	if pending, dead, err := f.CountDeliveries(t.Context()); err != nil || pending != maxPendingDeliveries || dead != maxDeadDeliveries {
		t.Errorf("counted %d and %d, %v", pending, dead, err)
	}
	c.advance(deadRetention + time.Hour)
	trim()
	if w, err := a.Webhook(t.Context(), w.ID); err != nil || w.Pending != maxPendingDeliveries || w.Dead != 0 {
		t.Errorf("after their time: %+v, %v", w, err)
	}
	if err := a.RemoveWebhook(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := f.registry.DB.QueryRowContext(t.Context(), `select count(*) from deliveries`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d deliveries without a webhook, %v", left, err)
	}
}

// The leader sends events as they happen, and one receiver that fails does not delay others.
func TestWebhookLoop(t *testing.T) {
	r := newReceiver(t)
	r.opts.Allow = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f := openWebhookFleet(t, "", r, nil)
	admin := f.Account(LocalCaller())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	mustWebhook(t, accountOf(f, bob), atoll.Webhook{URL: "http://hooks.test/", Types: []string{"sandbox.*"}}) // is refused at each attempt
	mustWebhook(t, accountOf(f, alice), atoll.Webhook{Types: []string{"sandbox.*"}})
	for i := range 20 {
		emitEvents(t, f, atoll.Event{Owner: bob, Type: "sandbox.created", Name: "b"}, atoll.Event{Owner: alice, Type: "sandbox.created", Name: fmt.Sprint(i)})
	}
	got := make(map[string]bool)
	deadline := time.After(time.Minute)
	for len(got) < 20 {
		select {
		case <-r.news:
		case <-deadline:
			t.Fatalf("received only %v", got)
		}
		for _, m := range r.take() {
			if got[m.event.Name] {
				t.Errorf("%s came twice", m.event.Name)
			}
			got[m.event.Name] = true
		}
	}
	list, err := admin.Webhooks(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An attempt whose result is not recorded is repeated with the same id, so that receivers can tell.
func TestWebhookRepeatedAfterCrash(t *testing.T) {
	r := newReceiver(t)
	f := openWebhookFleet(t, "", r, nil)
	mustWebhook(t, accountOf(f, alice), atoll.Webhook{Types: []string{"sandbox.*"}})
	emitEvents(t, f, atoll.Event{Owner: alice, Type: "sandbox.created", Name: "one"})
	feedOnce(t, f)
	var id, hook, body, secret string
	if err := f.registry.DB.QueryRowContext(t.Context(), `select d.id, w.id, d.body, w.secret from deliveries d join webhooks w on w.id = d.webhook`).Scan(&id, &hook, &body, &secret); err != nil {
		t.Fatal(err)
	}
	s := webhook.NewSender(r.opts)
	defer s.Close()
	if _, err := s.Send(t.Context(), webhook.Message{URL: receiverURL, Secret: secret, ID: id, Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
	sendOnce(t, f)
	got := r.take()
	if len(got) != 2 || got[0].id != got[1].id || got[0].event.Time.IsZero() {
		t.Errorf("%+v", got)
	}
}

// Events that were trimmed before they were delivered are reported as lost.
func TestWebhookTellsLostEvents(t *testing.T) {
	r := newReceiver(t)
	f := openWebhookFleet(t, "", r, nil)
	emitEvents(t, f, atoll.Event{Owner: alice, Type: "sandbox.created"})
	mustWebhook(t, accountOf(f, alice), atoll.Webhook{Types: []string{"workspace.*"}})
	emitEvents(t, f, atoll.Event{Owner: alice, Type: "sandbox.created"}, atoll.Event{Owner: alice, Type: "sandbox.created"})
	if err := f.registry.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), `delete from events where time < ?`, registry.Timestamp(time.Now().Add(time.Hour)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	feedOnce(t, f)
	sendOnce(t, f)
	got := r.take()
	if len(got) != 1 || got[0].event.Type != "events.lost" || got[0].event.Owner != alice {
		t.Errorf("%+v", got)
	}
}
