package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// controlServer answers requests on the control socket.
type controlServer struct {
	s    *server
	once sync.Once
	stop chan struct{} // closed when the egress proxy is to end
}

// maxControlConns limits the connections to the control socket.
const maxControlConns = 16

func (c *controlServer) serve(l net.Listener) {
	tokens := make(chan struct{}, maxControlConns)
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		tokens <- struct{}{}
		go func() {
			defer func() { <-tokens }()
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(controlTimeout)) // a closed connection fails below
			r := c.handleQuestion(conn)
			b, err := json.Marshal(r)
			if err == nil {
				_, _ = conn.Write(b) // the caller may have disconnected
			}
		}()
	}
}

// handleQuestion reads a request and executes it.
func (c *controlServer) handleQuestion(r io.Reader) reply {
	b, err := io.ReadAll(io.LimitReader(r, maxQuestion+1))
	if err == nil && len(b) > maxQuestion {
		err = fmt.Errorf("%w: a question of more than %d bytes", atoll.ErrInvalid, maxQuestion)
	}
	var q question
	if err == nil {
		if bad := json.Unmarshal(b, &q); bad != nil {
			err = fmt.Errorf("%w: %w", atoll.ErrInvalid, bad)
		}
	}
	if err != nil {
		return reply{Problem: wire.ProblemOf(err)}
	}
	switch q.Op {
	case opSet:
		err = c.handleSet(&q)
	case opLog:
		return reply{Connections: c.s.journal.list()}
	case opAsk:
		var one atoll.Connection
		if one, err = c.s.evaluate(c.s.ctx, q.Target); err == nil {
			return reply{Connections: []atoll.Connection{one}}
		}
	case opClose:
		c.once.Do(func() { close(c.stop) })
	default:
		err = fmt.Errorf("%w: question %q", atoll.ErrUnsupported, q.Op)
	}
	return reply{Problem: wire.ProblemOf(err)}
}

func (c *controlServer) handleSet(q *question) error {
	if q.Network == nil {
		return fmt.Errorf("%w: no rules", atoll.ErrInvalid)
	}
	if q.Names != nil {
		if len(q.Names.Servers) == 0 {
			return errors.Join(atoll.ErrInvalid, errors.New("no name servers"))
		}
		if now := c.s.net.names.Load(); now.Fixed {
			q.Names.Servers, q.Names.Fixed = now.Servers, true
		}
		c.s.net.names.Store(q.Names)
	}
	return c.s.setRules(*q.Network)
}
