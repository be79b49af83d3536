package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// Filter selects the sandboxes to list. The zero Filter selects all that are not destroyed.
type Filter struct {
	States    []atoll.State
	Labels    map[string]string
	Name      string
	All       bool // including destroyed ones, as long as they are remembered
	AllOwners bool // needs ScopeOperate

	Limit int    // most sandboxes of one page, up to MaxPage; 0: all
	After string // only those after a page: the cursor that it ended with
}

// MaxPage is the largest number of sandboxes of one page.
const MaxPage = 1000

// List returns sandboxes, oldest first.
func (a *Account) List(ctx context.Context, filter Filter) ([]atoll.Info, error) {
	list, _, err := a.ListPage(ctx, filter)
	return list, err
}

// ListPage returns a page of sandboxes, oldest first, and the cursor for the next page; empty: there is
// none. Sandboxes that are created meanwhile are on the last page.
func (a *Account) ListPage(ctx context.Context, filter Filter) (list []atoll.Info, next string, err error) {
	scope := atoll.ScopeRead
	if filter.AllOwners {
		scope = atoll.ScopeOperate
	}
	if err := errors.Join(a.checkOwnerOp("list"), a.checkScope("list", scope)); err != nil {
		return nil, "", err
	}
	if err := filter.check(); err != nil {
		return nil, "", &atoll.Error{Op: "list", Err: err}
	}
	rows, next, err := a.queryPage(ctx, filter)
	if err == nil && a.f.checkHealth(ctx, rows) {
		rows, next, err = a.queryPage(ctx, filter)
	}
	if err != nil {
		return nil, "", &atoll.Error{Op: "list", Err: err}
	}
	list = make([]atoll.Info, len(rows))
	for i := range rows {
		list[i] = a.f.describeSandbox(ctx, &rows[i])
	}
	return list, next, nil
}

// queryPage returns the rows of a page, and the cursor for the next.
func (a *Account) queryPage(ctx context.Context, filter Filter) (page []row, next string, err error) {
	limit := filter.Limit // of one query
	if limit > 0 && len(filter.Labels) > 0 {
		limit = max(limit, labelBatch)
	}
	for {
		where, args := filter.sqlCondition(a.caller.Owner)
		where += " order by created, id"
		if limit > 0 {
			where, args = where+" limit ?", append(args, limit+1)
		}
		rows, err := a.f.queryRows(ctx, a.f.registry.DB, where, args...)
		if err != nil {
			return nil, "", err
		}
		more := limit > 0 && len(rows) > limit
		if more {
			rows = rows[:limit]
		}
		for i := range rows {
			if !filter.matchesLabels(rows[i].cfg.Labels) {
				continue
			}
			if limit > 0 && len(page) == filter.Limit {
				return page, page[len(page)-1].cursor(), nil
			}
			page = append(page, rows[i])
		}
		if !more {
			return page, "", nil
		}
		filter.After = rows[limit-1].cursor()
		if len(filter.Labels) == 0 {
			return page, filter.After, nil
		}
	}
}

// labelBatch is how many rows are read at once, at least, to find those with labels.
const labelBatch = 256

// cursor returns the cursor of a page that ends with the row.
func (r *row) cursor() string {
	return strconv.FormatInt(registry.Timestamp(r.created), 36) + "-" + r.id
}

// parseCursor returns when the sandbox at the end of a page was created, and its id.
func parseCursor(text string) (created int64, id string, err error) {
	at, id, ok := strings.Cut(text, "-")
	if ok {
		created, err = strconv.ParseInt(at, 36, 64)
	}
	if !ok || err != nil || atoll.CheckID(id) != nil {
		return 0, "", fmt.Errorf("%w: after %.64q: must be the cursor that a page ended with", atoll.ErrInvalid, text)
	}
	return created, id, nil
}

func (f *Filter) check() error {
	var errs []error
	if f.Limit < 0 || f.Limit > MaxPage {
		errs = append(errs, fmt.Errorf("%w: limit %d: must be from 0 to %d", atoll.ErrInvalid, f.Limit, MaxPage))
	}
	if f.After != "" {
		_, _, err := parseCursor(f.After)
		errs = append(errs, err)
	}
	for i, s := range f.States {
		if !slices.Contains(states, s) {
			errs = append(errs, fmt.Errorf("%w: states[%d] %q: must be one of %s", atoll.ErrInvalid, i, s, joinStates(states)))
		}
	}
	return errors.Join(errs...)
}

// sqlCondition returns the SQL condition of a filter, without its labels.
func (f *Filter) sqlCondition(o atoll.Owner) (string, []any) {
	conds, args := []string{"pool = ''"}, []any(nil)
	add := func(cond string, a ...any) { conds, args = append(conds, cond), append(args, a...) }
	if !f.AllOwners {
		add("app = ? and user = ?", o.App, o.User)
	}
	if f.Name != "" {
		add("name = ? and name <> ''", f.Name) // as the index of names has it
	}
	if f.After != "" {
		created, id, _ := parseCursor(f.After) // checked
		add("(created, id) > (?, ?)", created, id)
	}
	if len(f.States) > 0 {
		marks := make([]string, len(f.States))
		for i, s := range f.States {
			marks[i] = "?"
			args = append(args, s)
		}
		conds = append(conds, "state in ("+strings.Join(marks, ", ")+")")
	} else if !f.All {
		add("state <> 'destroyed'")
	}
	return strings.Join(conds, " and "), args
}

func (f *Filter) matchesLabels(labels map[string]string) bool {
	for k, v := range f.Labels {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}
