package api

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// What answers hold is bounded for each owner: past it output is dropped, and
// the answer says so; nobody begins then; the room comes back.
func TestManyLargeAnswers(t *testing.T) {
	s := newSite(t, Options{})
	var box atoll.Info
	s.want(http.StatusCreated, &box, "POST", "/v1/sandboxes", `{}`)
	path, owner, k := "/v1/sandboxes/"+box.ID+"/exec", atoll.Local.String(), &s.server.outputs
	const size = 200_000
	run := fmt.Sprintf(`{"shell":"head -c %d /dev/zero; head -c 3 /dev/zero >&2"}`, size)
	var whole, part wire.Exit
	s.want(http.StatusOK, &whole, "POST", path, run)
	if !bytes.Equal(whole.Stdout, make([]byte, size)) || len(whole.Stderr) != 3 || whole.Truncated || whole.Code != 0 || whole.Process == "" {
		t.Errorf("%d and %d bytes, truncated %v, status %d", len(whole.Stdout), len(whole.Stderr), whole.Truncated, whole.Code)
	}
	take := func(n int64) {
		for !k.reserve(owner, n) { // until the handler, whose answer is here, has returned
			if t.Context().Err() != nil {
				t.Fatal("room is not given back")
			}
			runtime.Gosched()
		}
	}
	take(maxBufferedPerOwner)
	k.release(owner, minBuffer)
	s.want(http.StatusOK, &part, "POST", path, run)
	if n := len(part.Stdout); n == 0 || n > minBuffer || !part.Truncated || part.Code != 0 {
		t.Errorf("%d bytes, truncated %v, status %d", n, part.Truncated, part.Code)
	}
	take(minBuffer)
	if a := s.do("POST", path, run); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || a.problem(t).Kind != "unavailable" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if !k.reserve("a/b", maxBufferedPerOwner) || k.reserve("c/d", minBuffer) {
		t.Error("one owner has all the room, or all have more than there is")
	}
	s.want(http.StatusUnprocessableEntity, nil, "POST", path, fmt.Sprintf(`{"shell":"true","max_output":%d}`, wire.MaxInlineOutput+1))
}
