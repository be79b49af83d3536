package main

import (
	"context"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
)

// impatience is how long a sandbox may take until somebody is told why.
const impatience = 500 * time.Millisecond

// watchCreation shows how far the making of a sandbox of a name has come, if it
// takes long, until the function that it returns is called.
func (a *app) watchCreation(ctx context.Context, c *link, name string) func() {
	if a.quiet || a.json {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	begun := time.Now()
	go func() {
		defer close(ended)
		select {
		case <-time.After(impatience):
		case <-ctx.Done():
			return
		}
		bar := a.newParts()
		defer bar.end()
		// What is not told is no reason to fail.
		_ = c.FollowEvents(ctx, client.EventFilter{Since: begun, Types: []string{"sandbox.progress"}}, func(e atoll.Event) error {
			if e.Name == name {
				bar.step(progressIn(e))
			}
			return nil
		})
	}()
	return func() {
		cancel()
		<-ended
	}
}

// progressIn is what an event says of how far something has come.
func progressIn(e atoll.Event) atoll.Progress {
	p := atoll.Progress{ID: e.Data["part"], Message: e.Message}
	p.Done, _ = strconv.ParseInt(e.Data["done"], 10, 64)
	p.Total, _ = strconv.ParseInt(e.Data["total"], 10, 64) // 0, as where nobody knows
	return p
}
