package turn

import "slices"

// notifyState calls Options.Notify if the turn's state or sandbox has changed since the last call. The
// caller must not hold mu.
func (t *Turn) notifyState() {
	t.saveState()
	notify := t.registry.opts.Notify
	if notify == nil {
		return
	}
	t.notifying.Lock() // in the order of the changes
	defer t.notifying.Unlock()
	r := t.Record()
	now := notifiedState{r.State, r.Sandbox}
	if now == t.notified {
		return
	}
	t.notified = now
	notify(r)
}

// saveState saves the record if what the turn waits for has changed, so that other processes see it.
func (t *Turn) saveState() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left {
		return
	}
	r := t.currentRecord()
	var open []string
	for _, p := range r.Permissions {
		open = append(open, p.ID)
	}
	if r.State == Finished || r.State == t.savedState && slices.Equal(open, t.savedOpen) {
		return // a finished one is saved by removeRunning
	}
	t.savedState, t.savedOpen = r.State, open
	t.registry.save(r)
}

// notifiedState is what Options.Notify reports.
type notifiedState struct{ state, sandbox string }
