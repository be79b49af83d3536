package preview

import (
	"context"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

// pollInterval is the time between two listings of the sandboxes when no event
// arrives.
const pollInterval = 15 * time.Second

// Publish passes the sandboxes that the proxy serves to a publisher until ctx is
// done. Sandboxes that are not running are included: their names lead to a page with
// their state.
func (d *Registry) Publish(ctx context.Context, p *proxy.Publisher) error {
	ctx, end := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		d.watchChanges(ctx, changed)
	}()
	defer func() {
		end()
		<-listened
	}()
	told := make(map[string]publishedSandbox)
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for {
		if list, err := d.listPublished(ctx); err == nil { // after an error the next round tries again
			d.updatePublisher(ctx, p, told, list)
		}
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// watchChanges signals changes of sandboxes until ctx is done.
func (d *Registry) watchChanges(ctx context.Context, changed chan<- struct{}) {
	filter := event.Filter{Since: time.Now(), Types: []string{"sandbox.*"}, AllOwners: true}
	for ctx.Err() == nil {
		_ = d.Fleet.Account(fleet.LocalCaller()).Events(ctx, filter, true, func(atoll.Event) error {
			select {
			case changed <- struct{}{}:
			default:
			}
			return nil
		})
		select { // events can't be read now: polling continues
		case <-time.After(pollInterval):
		case <-ctx.Done():
		}
	}
}

// publishedSandbox is the state of a sandbox when it was published.
type publishedSandbox struct {
	id      string
	running bool
}

// listPublished returns the sandboxes that the proxy serves, by their names in host names.
func (d *Registry) listPublished(ctx context.Context) (map[string]publishedSandbox, error) {
	list, err := d.Fleet.Account(fleet.LocalCaller()).List(ctx, fleet.Filter{AllOwners: d.Access != nil})
	if err != nil {
		return nil, err
	}
	owned := make(map[atoll.Owner][]atoll.Info)
	for _, info := range list {
		owned[info.Owner] = append(owned[info.Owner], info)
	}
	all := make(map[string]publishedSandbox)
	for o, infos := range owned {
		names := d.hostNames(o, infos)
		for _, info := range infos {
			if name, ok := names[info.ID]; ok {
				all[name] = publishedSandbox{info.ID, info.State == atoll.Running}
			}
		}
	}
	return all, nil
}

// updatePublisher adds and removes sandboxes until the publisher has those of now.
func (d *Registry) updatePublisher(ctx context.Context, p *proxy.Publisher, told, now map[string]publishedSandbox) {
	for name := range told {
		if _, ok := now[name]; !ok {
			p.Remove(name)
			delete(told, name)
		}
	}
	for name, s := range now {
		if told[name] == s {
			continue
		}
		if t, err := d.Finder().Find(ctx, name); err == nil && t.ID() == s.id {
			p.Add(ctx, name, t) // again after a start: its ports differ
			told[name] = s
		}
	}
}
