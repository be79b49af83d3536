package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/model"
)

// What a sandbox gets where its owner has a quota and the configuration names no
// limit; less, if the quota is less.
const (
	usualCPU    = 2.0
	usualMemory = 1 << 30
	usualDisk   = 100 << 20
)

// quota returns what an owner may have; negative: no limit.
func (f *Fleet) quota(ctx context.Context, q querier, o atoll.Owner) (atoll.Quota, error) {
	var own atoll.Quota
	var b []byte
	err := q.QueryRowContext(ctx, "select quota from quotas where app = ? and user = ?", o.App, o.User).Scan(&b)
	if err == nil {
		err = json.Unmarshal(b, &own)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return own, fmt.Errorf("quota of %s: %w", o, err)
	}
	d := f.opts.Quota
	return atoll.Quota{
		Sandboxes: limit(own.Sandboxes, d.Sandboxes), CPU: limit(own.CPU, d.CPU), Memory: limit(own.Memory, d.Memory),
		Disk: limit(own.Disk, d.Disk), Workspaces: limit(own.Workspaces, d.Workspaces), Processes: limit(own.Processes, d.Processes),
		Tokens: limit(own.Tokens, d.Tokens), Cost: limit(own.Cost, d.Cost),
	}, nil
}

// limit is the first that is set; -1 for none.
func limit[T int | int64 | float64](values ...T) T {
	for _, v := range values {
		if v > 0 {
			return v
		}
		if v < 0 {
			break
		}
	}
	return -1
}

// mostUsage is where usage stops to count, so that no sum of limits overflows.
const mostUsage = float64(1 << 60)

// usage returns what an owner has now, but for workspaces and commands. Sums of
// bytes are exact below 1<<53.
func (f *Fleet) usage(ctx context.Context, q querier, o atoll.Owner) (atoll.Quota, error) {
	var u atoll.Quota
	var disk, memory float64
	err := q.QueryRowContext(ctx, `select count(*), coalesce(sum(disk), 0.0), coalesce(sum(cpu) filter (where runs), 0.0), coalesce(sum(memory) filter (where runs), 0.0)
		from (select `+f.store.limit("disk")+` disk, `+f.store.limit("cpu")+` cpu, `+f.store.limit("memory")+` memory, state not in ('stopped', 'error') runs
			from sandboxes where app = ? and user = ? and pool = '' and state <> 'destroyed') o`, o.App, o.User).Scan(&u.Sandboxes, &disk, &u.CPU, &memory)
	u.Disk, u.CPU, u.Memory = int64(min(disk, mostUsage)), min(u.CPU, mostUsage), int64(min(memory, mostUsage))
	return u, err
}

// limit is the expression for a limit in the configuration of a sandbox: a
// number from 0 to mostUsage.
func (s *store) limit(name string) string {
	value := "cast(coalesce(json_extract(config, '$.limits." + name + "'), 0) as double precision)"
	if s.shared != nil {
		value = "cast(coalesce(cast(config as json) #>> '{limits," + name + "}', '0') as double precision)"
	}
	most := strconv.FormatFloat(mostUsage, 'e', -1, 64)
	return "case when " + value + " > " + most + " then " + most + " when " + value + " > 0 then " + value + " else 0.0 end"
}

// readmit refuses to let a sandbox run again that the quota has no room for.
func (f *Fleet) readmit(ctx context.Context, tx *sql.Tx, r *row) error {
	q, err := f.quota(ctx, tx, r.owner)
	if err != nil || q.CPU < 0 && q.Memory < 0 {
		return err
	}
	u, err := f.usage(ctx, tx, r.owner)
	if err != nil {
		return err
	}
	l := r.cfg.Limits
	return errors.Join(within("cpu", q.CPU, u.CPU, 0, &l.CPU), within("memory", q.Memory, u.Memory, 0, &l.Memory))
}

// admit refuses one more sandbox of an owner if the quota does not allow it. It
// sets the limits that the quota asks for where the configuration has none.
func (f *Fleet) admit(ctx context.Context, tx *sql.Tx, o atoll.Owner, ft atoll.Features, cfg *atoll.Config) error {
	q, err := f.quota(ctx, tx, o)
	if err != nil || q.Sandboxes < 0 && q.CPU < 0 && q.Memory < 0 && q.Disk < 0 {
		return err
	}
	u, err := f.usage(ctx, tx, o)
	if err != nil {
		return err
	}
	if q.Disk > 0 {
		_, bytes, err := f.workspaceUsage(ctx, tx, o)
		if err != nil {
			return err
		}
		kept, err := diskUsage(ctx, tx, o)
		if err != nil {
			return err
		}
		u.Disk += bytes + kept
	}
	return fit(q, u, ft, &cfg.Limits)
}

// fit reports all that one more sandbox would be over quota in, and sets limits
// that are left open.
func fit(q, used atoll.Quota, ft atoll.Features, l *atoll.Resources) error {
	var errs []error
	if q.Sandboxes > 0 && used.Sandboxes+1 > q.Sandboxes {
		errs = append(errs, fmt.Errorf("%w: %d of %d sandboxes are there; destroy one", atoll.ErrQuota, used.Sandboxes, q.Sandboxes))
	}
	if ft.CPULimit {
		errs = append(errs, within("cpu", q.CPU, used.CPU, usualCPU, &l.CPU))
	}
	errs = append(errs, within("memory", q.Memory, used.Memory, usualMemory, &l.Memory), within("disk", q.Disk, used.Disk, usualDisk, &l.Disk))
	return errors.Join(errs...)
}

// within sets a limit that is left open, and reports one that passes the quota.
func within[T int64 | float64](what string, quota, used, usual T, l *T) error {
	switch {
	case quota < 0:
		return nil
	case *l == 0:
		*l = min(usual, quota)
	case *l < 0:
		return fmt.Errorf("%w: limits.%s: it must have one, as the quota is %v", atoll.ErrQuota, what, quota)
	}
	if *l > quota-used { // the sum could pass what an int64 holds
		return fmt.Errorf("%w: limits.%s: %v more than the %v in use pass the quota of %v", atoll.ErrQuota, what, *l, used, quota)
	}
	return nil
}

// Allowance returns the caller's quota and what of it is used.
func (a *Account) Allowance(ctx context.Context) (atoll.Allowance, error) {
	if err := a.need("quota", atoll.ScopeRead); err != nil {
		return atoll.Allowance{}, err
	}
	l, err := a.f.allowance(ctx, a.caller.Owner)
	if err != nil {
		return l, &atoll.Error{Op: "quota", Err: err}
	}
	return l, nil
}

func (f *Fleet) allowance(ctx context.Context, o atoll.Owner) (l atoll.Allowance, err error) {
	tx, err := f.store.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return l, err
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	l.Owner = o
	if l.Limit, err = f.quota(ctx, tx, o); err != nil {
		return l, err
	}
	if l.Used, err = f.usage(ctx, tx, o); err != nil {
		return l, err
	}
	n, bytes, err := f.workspaceUsage(ctx, tx, o)
	if err != nil {
		return l, err
	}
	kept, err := diskUsage(ctx, tx, o)
	l.Used.Workspaces = n
	l.Used.Disk += bytes + kept
	l.Used.Processes = f.commands.of(o)
	if err == nil {
		var s model.Spend
		s, err = f.spending.SpentSince(ctx, model.Who{Owner: o}, monthOf(f.now()))
		l.Used.Tokens, l.Used.Cost = s.Input+s.CacheRead+s.CacheWrite+s.Output, s.Cost
	}
	return l, err
}

// SetQuota gives an owner a quota of his own. It needs ScopeAdmin.
func (a *Account) SetQuota(ctx context.Context, o atoll.Owner, q atoll.Quota) error {
	if err := a.need("quota", atoll.ScopeAdmin); err != nil {
		return err
	}
	noted := a.audited("quota", o.String(), fmt.Sprintf("%+v", q))
	err := a.f.setQuota(ctx, o, q)
	noted(err)
	if err != nil {
		return &atoll.Error{Op: "quota", ID: o.String(), Err: err}
	}
	return nil
}

func (f *Fleet) setQuota(ctx context.Context, o atoll.Owner, q atoll.Quota) error {
	if err := o.Check(); err != nil {
		return err
	}
	b, err := json.Marshal(q)
	if err != nil {
		return err
	}
	defer f.commands.forget(o)
	return f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into quotas (app, user, quota) values (?, ?, ?) on conflict (app, user) do update set quota = excluded.quota", o.App, o.User, string(b))
		return err
	})
}

// counter counts the commands of each owner that are under way in this process.
type counter struct {
	mu     sync.Mutex
	owners map[atoll.Owner]*count // guarded by mu
}

// count is one owner's.
type count struct {
	n     int
	limit int
	read  int64 // when limit was read from the registry, in nanoseconds
}

func (c *counter) of(o atoll.Owner) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.owners[o]; k != nil {
		return k.n
	}
	return 0
}

// forget makes the next command ask for the limit again.
func (c *counter) forget(o atoll.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.owners[o]; k != nil {
		k.read = 0
	}
}

// add counts one more if the limit allows it; ok is false if the limit has to be
// read first.
func (c *counter) add(o atoll.Owner, now int64) (ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.owners[o]
	if k == nil || now-k.read > int64(quotaAge) {
		return false, nil
	}
	if k.limit >= 0 && k.n >= k.limit {
		return true, fmt.Errorf("%w: %d commands are under way; wait until one has ended", atoll.ErrQuota, k.n)
	}
	k.n++
	return true, nil
}

func (c *counter) set(o atoll.Owner, limit int, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners == nil {
		c.owners = make(map[atoll.Owner]*count)
	}
	if c.owners[o] == nil {
		c.owners[o] = &count{}
	}
	c.owners[o].limit, c.owners[o].read = limit, now
}

func (c *counter) sub(o atoll.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owners[o].n--
}

// quotaAge is how long the limit of commands is believed.
const quotaAge = 5 * lag

// countCommand counts a command that begins.
func (f *Fleet) countCommand(ctx context.Context, o atoll.Owner) error {
	now := f.now().UnixNano()
	for {
		if ok, err := f.commands.add(o, now); ok {
			return err
		}
		q, err := f.quota(ctx, f.store.db, o)
		if err != nil {
			return err
		}
		f.commands.set(o, q.Processes, now)
	}
}
