package docker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/moby/moby/client"
)

// TestRemovalOfOthersFails: a container that another request could not remove is not taken for removed.
func TestRemovalOfOthersFails(t *testing.T) {
	for _, c := range []struct {
		conflicts int // of our requests with one of another process, all of which fail
		ok        bool
	}{{0, true}, {1, true}, {maxRemovals - 1, true}, {maxRemovals, false}} {
		requests := 0
		engineServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case strings.HasSuffix(r.URL.Path, "/wait"):
				fmt.Fprint(w, `{"StatusCode":137,"Error":{"Message":"could not kill container"}}`)
			case r.Method != http.MethodDelete:
				http.NotFound(w, r)
			case requests < c.conflicts:
				requests++
				w.WriteHeader(http.StatusConflict)
				fmt.Fprint(w, `{"message":"removal of container x is already in progress"}`)
			default:
				requests++
				w.WriteHeader(http.StatusNoContent)
			}
		}))
		api, err := client.New(client.WithHost("tcp://"+engineServer.Listener.Addr().String()), client.WithAPIVersion("1.44"))
		if err != nil {
			t.Fatal(err)
		}
		err = (&engine{api: api}).removeContainer(t.Context(), "x")
		if want := min(c.conflicts+1, maxRemovals); (err == nil) != c.ok || requests != want {
			t.Errorf("%d conflicts: %d requests, want %d; %v", c.conflicts, requests, want, err)
		}
		_ = api.Close()
		engineServer.Close()
	}
}
