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
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// usageRetention is how long the sums of chats and turns are kept after their last request. Sums
// of owners and assistants are kept for ever.
const usageRetention = 90 * 24 * time.Hour

// UsageStore records the usage of models in the registry.
type UsageStore struct {
	model.Reservations

	f *Fleet

	mu     sync.Mutex
	pruned time.Time // when old sums were last removed; guarded by mu
}

var (
	_ model.Ledger        = (*UsageStore)(nil)
	_ model.DailyLedger   = (*UsageStore)(nil)
	_ model.LimitedLedger = (*UsageStore)(nil)
)

// Usage returns the record of model usage. It is always the same value, through which
// concurrent requests of this process see each other's reservations.
func (f *Fleet) Usage() *UsageStore { return f.spending }

// part is a field of a Who by which usage is summed.
type part byte

// The parts. The name of a sum is a string of them.
const (
	ofOwner     part = 'o'
	ofAssistant part = 'a'
	ofChat      part = 'c'
	ofTurn      part = 't'
)

// everySum is the sum of one combination of all parts, empty or not.
const everySum = "*"

// storedSums are stored; other sums are computed from everySum. dailySums are stored by day.
var (
	storedSums = []string{"o", "a", "oa", "oc", "ot", everySum}
	dailySums  = map[string]bool{"o": true, "a": true, "oa": true, "": true}
)

// sumName returns the name of the sum over the fields of w that are not empty.
func sumName(w model.Caller) string {
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

// keepParts returns w without the fields that a sum does not have.
func keepParts(w model.Caller, sum string) model.Caller {
	if sum == everySum {
		return w
	}
	var o model.Caller
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

func dayNumber(t time.Time) int64 { return t.Unix() / int64(spendDay/time.Second) }

// Charge adds usage to the sums of the owner, the chat, the assistant and the turn of w. It is
// stored when Charge returns.
func (l *UsageStore) Charge(ctx context.Context, w model.Caller, s model.Usage) error {
	now := l.f.now()
	prune := l.claimPrune(now)
	var rows []string
	var args []any
	for _, sum := range storedSums {
		o := keepParts(w, sum)
		if sum != everySum && sumName(o) != sum {
			continue // w lacks a field of the sum
		}
		at := int64(0)
		if dailySums[sum] {
			at = dayNumber(now)
		}
		rows = append(rows, "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
		args = append(args, sum, o.Owner.App, o.Owner.User, o.Assistant, o.Chat, o.Turn, at, s.Requests, s.Refused, s.Input, s.Output, s.CacheRead, s.CacheWrite, s.Cost, registry.Timestamp(s.First), registry.Timestamp(s.Last))
	}
	return l.f.registry.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, chargeInsert+strings.Join(rows, ", ")+chargeUpsert, args...); err != nil {
			return fmt.Errorf("spend: %w", err)
		}
		if !prune {
			return nil
		}
		_, err := tx.ExecContext(ctx, "delete from spend where sum not in ('o', 'a', 'oa') and last < ?", registry.Timestamp(registry.Oldest(now, l.f.opts.Retention.Usage)))
		return err
	})
}

// chargeInsert and chargeUpsert surround the rows of a charge.
const (
	chargeInsert = "insert into spend (sum, app, user, assistant, chat, turn, day, requests, refused, input, output, cache_read, cache_write, cost, first, last) values "
	chargeUpsert = ` on conflict (sum, app, user, assistant, chat, turn, day) do update set
		requests = spend.requests + excluded.requests, refused = spend.refused + excluded.refused,
		input = spend.input + excluded.input, output = spend.output + excluded.output,
		cache_read = spend.cache_read + excluded.cache_read, cache_write = spend.cache_write + excluded.cache_write, cost = spend.cost + excluded.cost,
		first = case when spend.first = 0 or excluded.first > 0 and excluded.first < spend.first then excluded.first else spend.first end,
		last = case when spend.last < excluded.last then excluded.last else spend.last end`
)

// claimPrune reports, once a day, that old sums are to be removed.
func (l *UsageStore) claimPrune(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.pruned) < spendDay {
		return false
	}
	l.pruned = now
	return true
}

// Limits returns the limits of an owner's quota for this month.
func (l *UsageStore) Limits(ctx context.Context, o atoll.Owner) ([]model.Limit, error) {
	q, err := l.f.quotaOf(ctx, l.f.registry.DB, o)
	if err != nil || q.Tokens < 0 && q.Cost < 0 {
		return nil, err
	}
	b := model.Budget{Tokens: max(q.Tokens, 0), Cost: max(q.Cost, 0)}
	return []model.Limit{{Caller: model.Caller{Owner: o}, Budget: b, Since: monthStart(l.f.now())}}, nil
}

// monthStart returns the start of the month of a time, in UTC.
func monthStart(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// Usage returns the usage of all that matches the fields of w that are not empty.
func (l *UsageStore) Usage(ctx context.Context, w model.Caller) (model.Usage, error) {
	return l.UsageSince(ctx, w, time.Time{})
}

// UsageSince returns the usage since the day of a time. Sums of chats and turns are not stored by
// day: they are returned whole.
func (l *UsageStore) UsageSince(ctx context.Context, w model.Caller, since time.Time) (model.Usage, error) {
	sum := sumName(w)
	where, args := "sum = ? and app = ? and user = ? and assistant = ? and chat = ? and turn = ?", []any{sum, w.Owner.App, w.Owner.User, w.Assistant, w.Chat, w.Turn}
	switch {
	case sum == "":
		where, args = "sum = 'o'", nil
	case !slices.Contains(storedSums, sum):
		where, args = sumCondition(w)
	}
	if !since.IsZero() && dailySums[sum] {
		where, args = where+" and day >= ?", append(args, dayNumber(since))
	}
	var s model.Usage
	var u dialect.Usage
	var first, last int64
	err := l.f.registry.DB.QueryRowContext(ctx, `select coalesce(sum(requests), 0), coalesce(sum(refused), 0), coalesce(sum(input), 0), coalesce(sum(output), 0),
		coalesce(sum(cache_read), 0), coalesce(sum(cache_write), 0), coalesce(sum(cost), 0.0), coalesce(min(first) filter (where first > 0), 0), coalesce(max(last), 0)
		from spend where `+where, args...).Scan(&s.Requests, &s.Refused, &u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &s.Cost, &first, &last)
	if err != nil {
		return s, fmt.Errorf("spend: %w", err)
	}
	s.Usage, s.First, s.Last = u, registry.Time(first), registry.Time(last)
	return s, nil
}

// sumCondition returns the condition that selects the rows of everySum that match w.
func sumCondition(w model.Caller) (string, []any) {
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
