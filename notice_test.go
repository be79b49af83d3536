package atoll

import (
	"maps"
	"testing"
)

func TestNamedPorts(t *testing.T) {
	got := namePorts([]Port{
		{Port: 22}, {Port: 3000, Command: "node", Address: "127.0.0.1"}, {Port: 3000, Command: "node", Address: "::1"}, {Port: 3001, Command: "node"},
	})
	if want := map[string]int{"22": 22, "node": 3000, "node:3001": 3001}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
