package turn

// notifyState calls Options.Notify if the turn's state or sandbox has changed since the last call. The
// caller must not hold mu.
func (t *Turn) notifyState() {
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

// notifiedState is what Options.Notify reports.
type notifiedState struct{ state, sandbox string }
