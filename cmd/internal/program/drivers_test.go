package program

import (
	"reflect"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
)

// TestDriversUseConfiguredUpstream: egress.proxy reaches every driver, also the one in memory.
func TestDriversUseConfiguredUpstream(t *testing.T) {
	t.Setenv("ATOLL_CONFIG", t.TempDir()+"/atoll.yaml")
	t.Setenv("ATOLL_SYSTEM_CONFIG", t.TempDir()+"/atoll.yaml")
	t.Setenv("ATOLL_EGRESS_PROXY", "http://proxy.corp:3128")
	t.Setenv("ATOLL_EGRESS_NO_PROXY", ".corp,10.0.0.0/8")
	c, err := config.LoadAt(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := upstream.Config{Proxy: "http://proxy.corp:3128", NoProxy: []string{".corp", "10.0.0.0/8"}}
	for _, d := range append([]atoll.Driver{Wiring().NewInMemory(c)}, Drivers(c, t.TempDir())...) {
		if got := reflect.ValueOf(d).Elem().FieldByName("Upstream").Interface(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", d.Name(), got)
		}
	}
}
