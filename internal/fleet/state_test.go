package fleet

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// transitionTable shows the tables next and found: a row for each state to leave, a
// column for each to enter. n is next, f found, b both.
const transitionTable = `
                created   starting  running   pausing   paused    stopping  stopped   archived  error     destroyed
created         .         n         .         .         .         .         .         .         f         .
starting        .         .         b         .         f         .         f         f         b         .
running         .         .         .         n         f         n         f         .         b         .
pausing         .         .         f         .         b         .         f         .         b         .
paused          .         .         b         .         .         n         f         .         f         .
stopping        .         .         f         .         f         .         b         .         b         .
stopped         .         n         f         .         f         .         .         n         f         n
archived        .         n         .         .         .         .         .         .         .         n
error           .         n         f         .         f         .         f         .         .         n
destroyed       .         .         .         .         .         .         .         .         .         .
`

func TestStates(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(transitionTable), "\n")
	var heads []atoll.State
	for _, h := range strings.Fields(lines[0]) {
		heads = append(heads, atoll.State(h))
	}
	if !slices.Equal(heads, states) || len(lines)-1 != len(states) || len(allowedNext) != len(states) || len(observable) != len(states) {
		t.Fatalf("the drawing has states %v, the tables %v, %d and %d rows", heads, states, len(allowedNext), len(observable))
	}
	for _, line := range lines[1:] {
		fields := strings.Fields(line)
		for i, want := range fields[1:] {
			from, to := atoll.State(fields[0]), heads[i]
			t.Run(string(from)+" to "+string(to), func(t *testing.T) { checkCell(t, from, to, want) })
		}
	}
}

func checkCell(t *testing.T, from, to atoll.State, want string) {
	inNext, inFound := slices.Contains(allowedNext[from], to), slices.Contains(observable[from], to)
	if inNext != (want == "n" || want == "b") || inFound != (want == "f" || want == "b") {
		t.Errorf("next has it: %v, found has it: %v; drawn is %q", inNext, inFound, want)
	}
}

// TestTransitions tries to move a row from each state to each other state.
func TestTransitions(t *testing.T) {
	f := openFleet(t, Options{})
	for _, from := range states {
		for _, to := range states {
			r := row{id: atoll.NewID(), owner: atoll.Local, driver: "virtual", state: from, created: f.now(), active: f.now(), changed: f.now()}
			err := f.registry.Write(t.Context(), func(tx *sql.Tx) error { return f.insertRow(t.Context(), tx, &r) })
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.changeRow(t.Context(), r.id, func(tx *sql.Tx, r *row) error { return f.transitionTo(t.Context(), tx, r, to) })
			got, lerr := f.loadRow(t.Context(), r.id)
			if lerr != nil {
				t.Fatal(lerr)
			}
			if slices.Contains(allowedNext[from], to) {
				if err != nil || got.state != to {
					t.Errorf("%s to %s: %v, and it is %s", from, to, err, got.state)
				}
			} else if !errors.Is(err, atoll.ErrState) || got.state != from || !strings.Contains(err.Error(), string(from)) || !strings.Contains(err.Error(), string(to)) {
				t.Errorf("%s to %s: %v, and it is %s; want an ErrState that names both and nothing changed", from, to, err, got.state)
			}
			if _, err := f.changeRow(t.Context(), r.id, func(tx *sql.Tx, r *row) error {
				r.state = atoll.Destroyed // so that closing has nothing to do with it
				return f.saveRow(t.Context(), tx, r)
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
