package fleet

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/dialect"
	"github.com/atoll-sandbox/atoll/internal/model"
)

// spendAge is how long the sums of chats and turns are kept after the last
// request; those of owners and assistants are for ever.
const spendAge = 90 * 24 * time.Hour

// Spending keeps in the registry what everybody asked of models.
type Spending struct {
	model.Holds

	f *Fleet

	mu     sync.Mutex
	pruned time.Time // guarded by mu: when old sums were removed last
}

var (
	_ model.Ledger = (*Spending)(nil)
	_ model.Diary  = (*Spending)(nil)
	_ model.Bounds = (*Spending)(nil)
)

// Spending returns the ledger of models, always the same: requests under way in
// this process know of each other through it.
func (f *Fleet) Spending() *Spending { return f.spending }

// part is a field of a Who that a sum may be of.
type part byte

// A sum is of the parts that its name holds.
const (
	ofOwner     part = 'o'
	ofAssistant part = 'a'
	ofChat      part = 'c'
	ofTurn      part = 't'
)

// every is the sum that is of all parts, whether they are empty or not.
const every = "*"

// sums are kept; others are made of every. Those of daily know days.
var (
	sums  = []string{"o", "a", "oa", "oc", "ot", every}
	daily = map[string]bool{"o": true, "a": true, "oa": true, "": true}
)

// sumOf names the sum of all that in w is not empty.
func sumOf(w model.Who) string {
	var name []byte
	for _, p := range []struct {
		of  part
		set bool
	}{{ofOwner, w.Owner != atoll.Owner{}}, {ofAssistant, w.Assistant != ""}, {ofChat, w.Chat != ""}, {ofTurn, w.Turn != ""}} {
		if p.set {
			name = append(name, byte(p.of))
		}
	}
	return string(name)
}

// only leaves in w what a sum is of.
func only(w model.Who, sum string) model.Who {
	if sum == every {
		return w
	}
	var o model.Who
	for _, p := range []byte(sum) {
		switch part(p) {
		case ofOwner:
			o.Owner = w.Owner
		case ofAssistant:
			o.Assistant = w.Assistant
		case ofChat:
			o.Chat = w.Chat
		case ofTurn:
			o.Turn = w.Turn
		}
	}
	return o
}

const spendDay = 24 * time.Hour

func dayOf(t time.Time) int64 { return t.Unix() / int64(spendDay/time.Second) }

// Charge adds to what w spent: to the sums of the owner, the chat, the
// assistant and the turn. It is written when it returns.
func (l *Spending) Charge(ctx context.Context, w model.Who, s model.Spend) error {
	now := l.f.now()
	prune := l.due(now)
	var rows []string
	var args []any
	for _, sum := range sums {
		o := only(w, sum)
		if sum != every && sumOf(o) != sum {
			continue // w has not that part
		}
		at := int64(0)
		if daily[sum] {
			at = dayOf(now)
		}
		rows = append(rows, "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
		args = append(args, sum, o.Owner.App, o.Owner.User, o.Assistant, o.Chat, o.Turn, at, s.Requests, s.Refused, s.Input, s.Output, s.CacheRead, s.CacheWrite, s.Cost, stamp(s.First), stamp(s.Last))
	}
	return l.f.store.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, charging+strings.Join(rows, ", ")+adding, args...); err != nil {
			return fmt.Errorf("spend: %w", err)
		}
		if !prune {
			return nil
		}
		_, err := tx.ExecContext(ctx, "delete from spend where sum not in ('o', 'a', 'oa') and last < ?", stamp(now.Add(-spendAge)))
		return err
	})
}

// charging and adding are what is before and after the rows of a charge.
const (
	charging = "insert into spend (sum, app, user, assistant, chat, turn, day, requests, refused, input, output, cache_read, cache_write, cost, first, last) values "
	adding   = ` on conflict (sum, app, user, assistant, chat, turn, day) do update set
		requests = spend.requests + excluded.requests, refused = spend.refused + excluded.refused,
		input = spend.input + excluded.input, output = spend.output + excluded.output,
		cache_read = spend.cache_read + excluded.cache_read, cache_write = spend.cache_write + excluded.cache_write, cost = spend.cost + excluded.cost,
		first = case when spend.first = 0 or excluded.first > 0 and excluded.first < spend.first then excluded.first else spend.first end,
		last = case when spend.last < excluded.last then excluded.last else spend.last end`
)

// due reports whether old sums are to be removed: once a day.
func (l *Spending) due(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.pruned) < spendDay {
		return false
	}
	l.pruned = now
	return true
}

// Limits returns what the quota of an owner allows in this month.
func (l *Spending) Limits(ctx context.Context, o atoll.Owner) ([]model.Limit, error) {
	q, err := l.f.quota(ctx, l.f.store.db, o)
	if err != nil || q.Tokens < 0 && q.Cost < 0 {
		return nil, err
	}
	b := model.Budget{Tokens: max(q.Tokens, 0), Cost: max(q.Cost, 0)}
	return []model.Limit{{Who: model.Who{Owner: o}, Budget: b, Since: monthOf(l.f.now())}}, nil
}

// monthOf is when the month of a time began.
func monthOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// Spent returns a sum: of all that in w is not empty.
func (l *Spending) Spent(ctx context.Context, w model.Who) (model.Spend, error) {
	return l.SpentSince(ctx, w, time.Time{})
}

// SpentSince returns a sum without the days before that of a time. Sums of
// chats and turns have no days.
func (l *Spending) SpentSince(ctx context.Context, w model.Who, since time.Time) (model.Spend, error) {
	sum := sumOf(w)
	where, args := "sum = ? and app = ? and user = ? and assistant = ? and chat = ? and turn = ?", []any{sum, w.Owner.App, w.Owner.User, w.Assistant, w.Chat, w.Turn}
	switch {
	case sum == "":
		where, args = "sum = 'o'", nil
	case !slices.Contains(sums, sum):
		where, args = matching(w)
	}
	if !since.IsZero() && daily[sum] {
		where, args = where+" and day >= ?", append(args, dayOf(since))
	}
	var s model.Spend
	var u dialect.Usage
	var first, last int64
	err := l.f.store.db.QueryRowContext(ctx, `select coalesce(sum(requests), 0), coalesce(sum(refused), 0), coalesce(sum(input), 0), coalesce(sum(output), 0),
		coalesce(sum(cache_read), 0), coalesce(sum(cache_write), 0), coalesce(sum(cost), 0.0), coalesce(min(first) filter (where first > 0), 0), coalesce(max(last), 0)
		from spend where `+where, args...).Scan(&s.Requests, &s.Refused, &u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &s.Cost, &first, &last)
	if err != nil {
		return s, fmt.Errorf("spend: %w", err)
	}
	s.Usage, s.First, s.Last = u, when(first), when(last)
	return s, nil
}

// matching is the condition on the sums of every turn for one that is not kept.
func matching(w model.Who) (string, []any) {
	where, args := "sum = '*'", []any(nil)
	for _, c := range []struct {
		column, value string
	}{{"app", w.Owner.App}, {"user", w.Owner.User}, {"assistant", w.Assistant}, {"chat", w.Chat}, {"turn", w.Turn}} {
		if c.value != "" {
			where, args = where+" and "+c.column+" = ?", append(args, c.value)
		}
	}
	return where, args
}
