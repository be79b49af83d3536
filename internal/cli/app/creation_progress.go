package app

import (
	"context"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
)

// impatience is the time after which progress of a creation is shown.
const impatience = 500 * time.Millisecond

// ShowCreation shows how far the making of a sandbox of a name has come, if it
// takes long, until the function that it returns is called.
func (a *App) ShowCreation(ctx context.Context, c *Connection, name string) func() {
	if a.Quiet || a.JSON {
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
		bar := a.NewProgressBar()
		defer bar.Finish()
		// What is not told is no reason to fail.
		_ = c.FollowEvents(ctx, client.EventFilter{Since: begun, Types: []string{"sandbox.progress"}}, func(e atoll.Event) error {
			if e.Name == name {
				bar.Update(progressIn(e))
			}
			return nil
		})
	}()
	return func() {
		cancel()
		<-ended
	}
}

// progressIn returns the progress that an event reports.
func progressIn(e atoll.Event) atoll.Progress {
	p := atoll.Progress{ID: e.Data["part"], Message: e.Message}
	p.Done, _ = strconv.ParseInt(e.Data["done"], 10, 64)
	p.Total, _ = strconv.ParseInt(e.Data["total"], 10, 64) // 0, as where nobody knows
	return p
}
