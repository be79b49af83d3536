package api

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func TestMetrics(t *testing.T) {
	s := newSite(t, Options{})
	s.want(http.StatusCreated, nil, "POST", "/v1/sandboxes", `{"name":"web"}`)
	for _, command := range []string{"true", "exit 3"} {
		s.want(http.StatusOK, nil, "POST", "/v1/sandboxes/web/exec", `{"shell":"`+command+`"}`)
	}
	for _, path := range []string{"/v1/sandboxes/nope", "/v1/sandboxes/noper", "/secret-path", "/v1/tokens/secret-path"} {
		s.do("GET", path, "")
	}
	s.do("SECRET", "/v1/sandboxes", "")
	s.do("GET", "/v1/info", "", "Authorization: Bearer secret-token")
	a := s.want(http.StatusOK, nil, "GET", "/metrics", "")
	for _, want := range []string{
		`atoll_requests_total{method="POST",route="POST /v1/sandboxes",status="201"} 1`,
		`atoll_requests_total{method="GET",route="GET /v1/sandboxes/{id}",status="404"} 2`,
		`atoll_requests_total{method="GET",route="",status="404"} 1`,
		`atoll_requests_total{method="other",route="",status="405"} 1`,
		`atoll_auth_failures_total 1`,
		`atoll_quota_refusals_total 0`,
		`atoll_execs_total{outcome="ok"} 1`,
		`atoll_execs_total{outcome="failed"} 1`,
		`atoll_exec_duration_seconds_count 2`,
		`atoll_sandboxes{driver="virtual",state="running"} 1`,
		`atoll_build_info{version="test"} 1`,
		`atoll_disk_full 0`,
		`atoll_webhook_deliveries{state="pending"} 0`,
		`atoll_model_tokens_total{kind="input"} 0`,
		`atoll_model_requests_total{outcome="refused"} 0`,
		`atoll_request_duration_seconds_count{method="POST",route="POST /v1/sandboxes"} 1`,
		`go_goroutines `, `process_open_fds `,
	} {
		if !strings.Contains(a.body, "\n"+want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(strings.ToLower(a.body), "secret") {
		t.Error("what callers send became a label")
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+)`).FindAllStringSubmatch(a.body, -1) {
		names = append(names, m[1])
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "atoll_") && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("metric %s is called after nobody", name)
		}
	}
	if !slices.Contains(names, "atoll_requests_total") {
		t.Errorf("metrics: %v", names)
	}
	s.token = s.newToken(atoll.Local, atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost)
	s.want(http.StatusForbidden, nil, "GET", "/metrics", "")
}
