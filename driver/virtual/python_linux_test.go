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
		time.Sleep(2 * time.Second)
		begin := time.Now()
		w := stamp{begin: begin}
		exit, err := box.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", c}, Stdout: &w})
		t.Logf("%s\n%d %v %v\n%s\n--%s", c, exit.Code, err, time.Since(begin), w.out, exit.Stderr)
		t.Log("first", w.first)
	}
}

type stamp struct {
	begin time.Time
	first time.Duration
	out   string
}

func (s *stamp) Write(b []byte) (int, error) {
	if s.first == 0 {
		s.first = time.Since(s.begin)
	}
	s.out += string(b)
	return len(b), nil
}
