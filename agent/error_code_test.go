package agent_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
)

func TestCode(t *testing.T) {
	for status, want := range map[int]string{
		0: "", 200: "", 304: "", 399: "", 600: "", -32000: "",
		400: "invalid_request", 401: "authentication", 402: "billing", 403: "forbidden", 404: "not_found",
		408: "timeout", 422: "invalid_request", 429: "rate_limit", 500: "server_error", 502: "server_error",
		503: "overloaded", 504: "timeout", 529: "overloaded",
	} {
		if got := agent.ErrorCode(status); got != want {
			t.Errorf("%d is %q, want %q", status, got, want)
		}
	}
}
