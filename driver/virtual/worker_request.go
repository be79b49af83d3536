package virtual

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// requestTarget is the question of callRequest: what the request itself does not say.
type requestTarget struct {
	Scheme string `json:"scheme"`
	Host   string `json:"host"` // with the port, if the URL has one
}

// problemHeader is the header of a response that stands for an error of the parent: a wire.Problem
// as JSON. The parent removes it from other responses.
const problemHeader = "Atoll-Problem"

func parseProblem(text string) error {
	var p wire.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	}
	return p.Err()
}

// exchangeBody is the body of a response that ends its stream.
type exchangeBody struct {
	io.ReadCloser
	end  func()
	once sync.Once
}

// Close ends the exchange.
func (b *exchangeBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.end)
	return err
}

// maxRequestHead is the largest head of a request that a worker sends, in bytes.
const maxRequestHead = 256 << 10

// forwardRequest sends the HTTP request that a worker has written to a connection, if the rules allow
// it, and writes the response. ctx ends with the worker.
func (n *network) forwardRequest(ctx context.Context, to requestTarget, conn net.Conn) {
	head := &io.LimitedReader{R: conn, N: maxRequestHead}
	req, err := http.ReadRequest(bufio.NewReader(head))
	if err != nil {
		return // the worker has given up
	}
	head.N = math.MaxInt64 // the body is not kept
	req = req.WithContext(ctx)
	req.RequestURI = ""
	req.URL, err = url.Parse(to.Scheme + "://" + to.Host + req.URL.RequestURI())
	var resp *http.Response
	if err == nil {
		resp, err = n.RoundTrip(req)
	}
	if err != nil {
		_ = writeProblem(conn, err) // fails if the worker has given up
		return
	}
	defer resp.Body.Close()
	resp.Header.Del(problemHeader)
	_ = resp.Write(conn) // fails if the worker has given up, or the server; the worker sees the end
}

// writeProblem writes a response that stands for an error.
func writeProblem(w io.Writer, err error) error {
	var ae *atoll.Error
	if errors.As(err, &ae) {
		err = ae.Err
	}
	p, merr := json.Marshal(wire.ProblemOf(err))
	if merr != nil {
		return merr
	}
	resp := http.Response{StatusCode: http.StatusBadGateway, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{problemHeader: {string(p)}}}
	return resp.Write(w)
}
