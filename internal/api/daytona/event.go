package daytona

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
)

// eventsPath is the path of the stream of events, which has the protocol of socket.io over WebSockets.
const eventsPath = "/api/socket.io/"

// Times of a stream of events.
const (
	eventLogin   = 10 * time.Second // until the client shows its key
	eventPing    = 25 * time.Second // between pings of the server
	eventPong    = 20 * time.Second // until the client answers one
	eventWriting = 10 * time.Second // of one message
)

// Packets of Engine.IO 4, and of socket.io within the fourth.
const (
	packetOpen       = "0"
	packetClose      = "1"
	packetPing       = "2"
	packetPong       = "3"
	packetConnect    = "40"
	packetDisconnect = "41"
	packetEvent      = "42"
	packetRefused    = "44"
)

// maxSeen is the number of sandboxes whose states a stream remembers.
const maxSeen = 10_000

// IsEvents reports whether a request asks for the stream of events, whose key comes in its first message.
func IsEvents(r *http.Request) bool { return r.URL.Path == eventsPath }

// EventLogin returns the sandboxes of the caller who has a key, a context that is done when the key is no longer
// valid, and a function that ends the call.
type EventLogin func(ctx context.Context, key string) (context.Context, *fleet.Account, func(), error)

// registerEvents registers the stream of events, whose requests [Server.ServeEvents] serves.
func (s *Server) registerEvents() {
	add(s.api, "GET "+eventsPath, func(c *call) error { return missingRoute(c.r) })
}

// ServeEvents serves a stream of events. An error that is returned was not answered yet.
func (s *Server) ServeEvents(w http.ResponseWriter, r *http.Request, login EventLogin) error {
	if q := r.URL.Query(); q.Get("EIO") != "4" || q.Get("transport") != "websocket" {
		return unsupportedError("events by another transport than a WebSocket of Engine.IO 4")
	}
	ws, ctx, cancel, err := s.acceptWebSocket(&call{w: w, r: r})
	if err != nil {
		return err
	}
	defer cancel()
	e := &eventStream{ws: ws, id: newUUID(), pong: make(chan struct{}, 1)}
	if err := e.send(ctx, packetOpen, map[string]any{"sid": e.id, "upgrades": []string{}, "pingInterval": eventPing.Milliseconds(), "pingTimeout": eventPong.Milliseconds(), "maxPayload": maxMessage}); err != nil {
		return nil //nolint:nilerr // the client is gone
	}
	key, err := e.readKey(ctx)
	if err != nil {
		return nil //nolint:nilerr // the client is gone, or sent something else
	}
	valid, a, leave, err := login(ctx, key)
	if err != nil {
		if e.send(ctx, packetRefused, map[string]string{"message": messageOf(err)}) == nil {
			_ = ws.Close(websocket.StatusPolicyViolation, "unauthorized") // the client may be gone
		}
		return nil
	}
	defer leave()
	e.call = &call{w: w, r: r.WithContext(valid), a: a}
	e.serve(valid)
	return nil
}

// eventStream is the stream of events of one client.
type eventStream struct {
	ws   *websocket.Conn
	id   string
	pong chan struct{}
	call *call
	seen map[string]*sandbox // as sent last, by id
}

// send sends a packet with a value.
func (e *eventStream) send(ctx context.Context, packet string, v any) error {
	text := []byte(packet)
	if v != nil {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		text = append(text, b...)
	}
	ctx, cancel := context.WithTimeout(ctx, eventWriting)
	defer cancel()
	return e.ws.Write(ctx, websocket.MessageText, text)
}

// errNoKey is the error of a stream whose first message has no key.
var errNoKey = errors.New("the first message must connect, with a token")

// readKey reads the message that connects, and returns its key.
func (e *eventStream) readKey(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, eventLogin)
	defer cancel()
	_, b, err := e.ws.Read(ctx)
	if err != nil {
		return "", err
	}
	text, ok := strings.CutPrefix(string(b), packetConnect)
	var in struct {
		Token string `json:"token"`
	}
	if !ok || json.Unmarshal([]byte(text), &in) != nil || in.Token == "" {
		return "", errNoKey
	}
	return in.Token, nil
}

// serve sends events until the client is gone or ctx is done.
func (e *eventStream) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{}, 2)
	for _, part := range []func(context.Context){e.readPackets, e.ping} {
		go func() {
			part(ctx)
			cancel()
			done <- struct{}{}
		}()
	}
	defer func() {
		cancel()
		<-done
		<-done
	}()
	newest, err := e.call.a.NewestEvent(ctx) // before the client knows that it is connected: it misses nothing that it does then
	if err != nil || e.loadStates(ctx) != nil || e.send(ctx, packetConnect, map[string]string{"sid": e.id}) != nil {
		return
	}
	// It ends with ctx, or with an error of sending.
	_ = e.call.a.Events(ctx, event.Filter{After: newest, Types: []string{"sandbox.*"}}, true, func(ev atoll.Event) error { return e.sendEvent(ctx, &ev) })
}

// readPackets reads what the client sends until it disconnects.
func (e *eventStream) readPackets(ctx context.Context) {
	for {
		_, b, err := e.ws.Read(ctx)
		switch text := string(b); {
		case err != nil, text == packetClose, strings.HasPrefix(text, packetDisconnect):
			return
		case text == packetPong:
			select {
			case e.pong <- struct{}{}:
			default: // an answer is noted already
			}
		}
	}
}

// ping pings the client until it does not answer.
func (e *eventStream) ping(ctx context.Context) {
	t := time.NewTimer(eventPing)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if e.send(ctx, packetPing, nil) != nil {
			return
		}
		t.Reset(eventPong)
		select {
		case <-e.pong:
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
		t.Reset(eventPing)
	}
}

// loadStates remembers the sandboxes that exist, so that their changes and removals are known.
func (e *eventStream) loadStates(ctx context.Context) error {
	all, err := e.call.a.List(ctx, fleet.Filter{Labels: map[string]string{labelSandbox: "true"}})
	if err != nil {
		return err
	}
	e.seen = make(map[string]*sandbox, len(all))
	for i := range all[max(len(all)-maxSeen, 0):] {
		e.seen[all[i].ID] = e.call.describe(&all[i])
	}
	return nil
}

// sendEvent sends the event of Daytona that an event of the fleet stands for. It describes the sandbox as it
// is now: a state that has passed already would mislead a client that was answered meanwhile.
func (e *eventStream) sendEvent(ctx context.Context, ev *atoll.Event) error {
	before := e.seen[ev.Object]
	now, err := e.describeNow(ctx, ev, before)
	if err != nil || now == nil {
		return err
	}
	if now.State == "destroyed" {
		delete(e.seen, ev.Object)
	} else {
		if len(e.seen) >= maxSeen {
			clear(e.seen)
		}
		e.seen[ev.Object] = now
	}
	switch {
	case before == nil:
		return e.send(ctx, packetEvent, []any{"sandbox.created", now})
	case before.State == now.State:
		return nil
	}
	return e.send(ctx, packetEvent, []any{"sandbox.state.updated", map[string]any{"sandbox": now, "oldState": before.State, "newState": now.State}})
}

// describeNow describes the sandbox of an event; nil: it is none of this API.
func (e *eventStream) describeNow(ctx context.Context, ev *atoll.Event, before *sandbox) (*sandbox, error) {
	sb, err := e.call.a.Open(ctx, ev.Object)
	if err == nil && sb.Labels()[labelSandbox] == "" {
		return nil, nil //nolint:nilnil // it is none
	}
	if err == nil {
		var info atoll.Info
		if info, err = sb.Info(ctx); err == nil {
			return e.call.describe(&info), nil
		}
	}
	switch {
	case !errors.Is(err, atoll.ErrNotFound):
		return nil, err
	case before == nil:
		return nil, nil //nolint:nilnil // it is none
	}
	gone := *before
	gone.State, gone.DesiredState = "destroyed", "destroyed"
	return &gone, nil
}
