package virtual_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/shell/command/python"
)

func TestSmoke(t *testing.T) {
	d := &virtual.Driver{Commands: python.Commands()}
	defer d.Close()
	box, err := d.Create(t.Context(), atoll.Spec{Runtime: os.Getenv("RT")})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Split(os.Getenv("SMOKE"), "@@") {
		begin := time.Now()
		exit, err := box.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", c}})
		t.Logf("%s\n%d %v %v\n%s\n--%s", c, exit.Code, err, time.Since(begin), exit.Stdout, exit.Stderr)
	}
}
