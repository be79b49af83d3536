package route

import (
	"context"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/proxy"
)

// look is how often a desk looks which sandboxes there are, if no event says
// that it should.
const look = 15 * time.Second

// Publish tells a publisher of the sandboxes that the proxy leads to, those that
// don't run too: their names lead to a page that says so. It returns when ctx
// is done.
func (d *Desk) Publish(ctx context.Context, p *proxy.Publisher) error {
	ctx, end := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		d.hear(ctx, changed)
	}()
	defer func() {
		end()
		<-listened
	}()
	told := make(map[string]standing)
	t := time.NewTicker(look)
	defer t.Stop()
	for {
		if list, err := d.all(ctx); err == nil { // what can't be asked now is asked again
			d.tell(ctx, p, told, list)
		}
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// hear tells of sandboxes that change, until ctx is done.
func (d *Desk) hear(ctx context.Context, changed chan<- struct{}) {
	filter := fleet.EventFilter{Since: time.Now(), Types: []string{"sandbox.*"}, AllOwners: true}
	for ctx.Err() == nil {
		_ = d.Fleet.For(fleet.LocalCaller()).Events(ctx, filter, true, func(atoll.Event) error {
			select {
			case changed <- struct{}{}:
			default:
			}
			return nil
		})
		select { // events can't be read now: there is the regular look
		case <-time.After(look):
		case <-ctx.Done():
		}
	}
}

// standing is a sandbox as it was published.
type standing struct {
	id      string
	running bool
}

// all returns the sandboxes that the proxy leads to, by their names in hosts.
func (d *Desk) all(ctx context.Context) (map[string]standing, error) {
	list, err := d.Fleet.For(fleet.LocalCaller()).List(ctx, fleet.Filter{AllOwners: d.Access != nil})
	if err != nil {
		return nil, err
	}
	owned := make(map[atoll.Owner][]atoll.Info)
	for _, info := range list {
		owned[info.Owner] = append(owned[info.Owner], info)
	}
	all := make(map[string]standing)
	for o, infos := range owned {
		names := d.names(o, infos)
		for _, info := range infos {
			if name, ok := names[info.ID]; ok {
				all[name] = standing{info.ID, info.State == atoll.Running}
			}
		}
	}
	return all, nil
}

// tell makes a publisher know what is there now.
func (d *Desk) tell(ctx context.Context, p *proxy.Publisher, told, now map[string]standing) {
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
			p.Add(ctx, name, t) // anew where it has started: its ports are others
			told[name] = s
		}
	}
}
