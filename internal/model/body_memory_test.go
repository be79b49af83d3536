package model

import (
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// watched notes the deadlines of reads.
type watched struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (w *watched) SetReadDeadline(t time.Time) error {
	w.set = append(w.set, t)
	return nil
}

func TestBodiesHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{ResponseRecorder: httptest.NewRecorder()}
		b, done, err := readBody(w, httptest.NewRequest("POST", "/", strings.NewReader("{}")), 10, &bodyMemory{max: 100})
		defer done()
		if string(b) != "{}" || err != nil {
			t.Fatalf("%q %v", b, err)
		}
		if n := len(w.set); n < 2 || !w.set[0].Equal(time.Now().Add(bodyStall)) || !w.set[n-1].IsZero() {
			t.Errorf("deadlines %v", w.set)
		}
	})
}

func TestBodiesThatTrickleEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, done, err := readBody(nil, httptest.NewRequest("POST", "/", trickle{}), 1<<20, &bodyMemory{max: 1 << 20})
		done()
		if d := time.Since(begin); err == nil || d > bodyTime+time.Minute {
			t.Errorf("%v after %v", err, d)
		}
	})
}

type trickle struct{}

func (trickle) Read(p []byte) (int, error) {
	time.Sleep(30 * time.Second) // of the bubble
	return copy(p, "a"), nil
}

func TestWhoFindsNoRoomIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := &bodyMemory{max: 100}
		read := func() (func(), error) {
			_, done, err := readBody(nil, httptest.NewRequest("POST", "/", io.LimitReader(strings.NewReader(strings.Repeat("a", 60)), 60)), 79, room)
			return done, err
		}
		first, err := read()
		if err != nil {
			t.Fatal(err)
		}
		second, err := read()
		second()
		if !errors.Is(err, errCrowded) {
			t.Errorf("error %v", err)
		}
		time.AfterFunc(time.Second, first)
		third, err := read()
		third()
		if err != nil || room.used != 0 {
			t.Errorf("%v, %d bytes are held", err, room.used)
		}
	})
}
