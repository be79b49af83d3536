package statedir

import (
	"context"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Change holds the lock of a sandbox while it calls f with its record. It waits for the lock until
// ctx is done. A sandbox that does not exist is atoll.ErrNotFound.
func (h *Home[T]) Change(ctx context.Context, id string, f func(r *T) error) error {
	held, err := h.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer held.Close()
	if err := h.recoverAct(id); err != nil {
		return err
	}
	r, err := h.Load(id)
	if err != nil {
		return err
	}
	return f(r)
}

// Statuses returns the status of every sandbox, the oldest first, and removes what processes that
// died have left of others, as Each does. unfinished reports whether a record is of a sandbox that
// was never created completely. status is not called for a record that can't be read: broken is
// the status of that sandbox, completed with its id and the error.
func (h *Home[T]) Statuses(unfinished func(*T) bool, status func(*T) atoll.Status, broken atoll.Status) ([]atoll.Status, error) {
	list := []atoll.Status{}
	err := h.ForEach(unfinished, func(id string, r *T, err error) {
		if err == nil {
			list = append(list, status(r))
			return
		}
		st := broken
		st.ID, st.State = id, atoll.Failed
		st.Conditions = []atoll.Condition{{Type: "ready", Reason: "unreadable", Message: err.Error()}}
		list = append(list, st)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b atoll.Status) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}
