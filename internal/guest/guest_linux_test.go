package guest

import (
	"net"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func TestExec(t *testing.T) {
	a, b := net.Pipe()
	go (&Server{}).ServeConn(b)
	c, err := Connect(t.Context(), a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	exit, err := c.Exec(t.Context(), atoll.Cmd{Shell: "cat; echo err >&2; exit 3", Stdin: strings.NewReader("in")})
	if err != nil || exit.Code != 3 || string(exit.Stdout) != "in" || string(exit.Stderr) != "err\n" {
		t.Errorf("got %+v, %v", exit, err)
	}
}
