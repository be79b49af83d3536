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
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/model"
)

// Limits of a sandbox whose owner has a quota and whose configuration names none. A lower quota
// lowers them.
const (
	defaultCPU    = 2.0
	defaultMemory = 1 << 30
	defaultDisk   = 100 << 20
)

// realDisk is the limit of disk of a sandbox with real programs, if its owner has only the default
// quota.
const realDisk = 1 << 30

// quotaOf returns the quota of an owner. Negative fields are unlimited.
func (f *Fleet) quotaOf(ctx context.Context, q registry.Querier, o atoll.Owner) (atoll.Quota, error) {
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
	if d.Disk == 0 && o != atoll.Local {
		d.Disk = f.opts.OwnerDisk
	}
	return atoll.Quota{
		Sandboxes: firstLimit(own.Sandboxes, d.Sandboxes), CPU: firstLimit(own.CPU, d.CPU), Memory: firstLimit(own.Memory, d.Memory),
		Disk: firstLimit(own.Disk, d.Disk), Workspaces: firstLimit(own.Workspaces, d.Workspaces), Processes: firstLimit(own.Processes, d.Processes),
		Tokens: firstLimit(own.Tokens, d.Tokens), Cost: firstLimit(own.Cost, d.Cost),
	}, nil
}

// firstLimit returns the first value that is set; -1: none.
func firstLimit[T int | int64 | float64](values ...T) T {
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

// maxUsage caps usage, so that no sum of limits overflows.
const maxUsage = float64(1 << 60)

// sandboxUsage returns the usage of an owner without workspaces, disks and commands. Sums of bytes
// are exact below 1<<53.
func (f *Fleet) sandboxUsage(ctx context.Context, q registry.Querier, o atoll.Owner) (atoll.Quota, error) {
	var u atoll.Quota
	var disk, memory, archived float64
	err := q.QueryRowContext(ctx, `select count(*), coalesce(sum(disk) filter (where state <> 'archived'), 0.0), coalesce(sum(cpu) filter (where runs), 0.0), coalesce(sum(memory) filter (where runs), 0.0)
		from (select `+limitExpr(f.registry, "disk")+` disk, `+limitExpr(f.registry, "cpu")+` cpu, `+limitExpr(f.registry, "memory")+` memory, state, state not in ('stopped', 'archived', 'error') runs
			from sandboxes where app = ? and user = ? and pool = '' and state <> 'destroyed') o`, o.App, o.User).Scan(&u.Sandboxes, &disk, &u.CPU, &memory)
	if err == nil { // an archived one counts with the size of its object
		err = q.QueryRowContext(ctx, `select coalesce(sum(a.bytes), 0.0) from archives a join sandboxes s on s.id = a.sandbox
			where a.state = 'kept' and s.app = ? and s.user = ? and s.state = 'archived'`, o.App, o.User).Scan(&archived)
	}
	disk += archived
	u.Disk, u.CPU, u.Memory = int64(min(disk, maxUsage)), min(u.CPU, maxUsage), int64(min(memory, maxUsage))
	return u, err
}

// limitExpr returns the SQL expression for a limit in the configuration of a sandbox: a number
// from 0 to maxUsage.
func limitExpr(reg *registry.Store, name string) string {
	value := reg.JSONNumber("config", "limits", name)
	most := strconv.FormatFloat(maxUsage, 'e', -1, 64)
	return "case when " + value + " > " + most + " then " + most + " when " + value + " > 0 then " + value + " else 0.0 end"
}

// checkRestart refuses to start a stopped sandbox beyond the owner's quota.
func (f *Fleet) checkRestart(ctx context.Context, tx *sql.Tx, r *row) error {
	q, err := f.quotaOf(ctx, tx, r.owner)
	if err != nil || q.CPU < 0 && q.Memory < 0 {
		return err
	}
	u, err := f.sandboxUsage(ctx, tx, r.owner)
	if err != nil {
		return err
	}
	l := r.cfg.Limits
	return errors.Join(fitLimit("cpu", q.CPU, u.CPU, 0, &l.CPU), fitLimit("memory", q.Memory, u.Memory, 0, &l.Memory))
}

// admitSandbox refuses one more sandbox beyond the owner's quota. It sets the limits that the
// quota demands where the configuration has none.
func (f *Fleet) admitSandbox(ctx context.Context, tx *sql.Tx, o atoll.Owner, ft atoll.Features, cfg *atoll.Config) error {
	q, err := f.quotaOf(ctx, tx, o)
	if err != nil || q.Sandboxes < 0 && q.CPU < 0 && q.Memory < 0 && q.Disk < 0 {
		return err
	}
	u, err := f.sandboxUsage(ctx, tx, o)
	if err != nil {
		return err
	}
	if f.opts.Quota.Disk == 0 && f.opts.OwnerDisk > 0 && q.Disk == f.opts.OwnerDisk {
		q.Disk = setDefaultDisk(q.Disk, ft, cfg)
	}
	if q.Disk > 0 {
		_, bytes, err := f.workspaceUsage(ctx, tx, o)
		if err != nil {
			return err
		}
		kept, err := keptDiskBytes(ctx, tx, o)
		if err != nil {
			return err
		}
		u.Disk += bytes + kept
	}
	return fitQuota(q, u, ft, &cfg.Limits)
}

// setDefaultDisk sets the limit of disk that the default quota demands, and returns the quota to be
// checked. An operator has not asked for it, so it does not refuse a driver or a runtime that can't
// limit a disk: such a sandbox has no limit, as before, and only workspaces count.
func setDefaultDisk(quota int64, ft atoll.Features, cfg *atoll.Config) int64 {
	builtIn := !ft.Programs
	if _, lacks := ft.Lacks["FullDiskIsQuota"]; lacks || cfg.Runtime != "" && !builtIn {
		return -1
	}
	if cfg.Limits.Disk == 0 && !builtIn {
		cfg.Limits.Disk = min(realDisk, quota)
	}
	return quota
}

// fitQuota reports every quota that one more sandbox would exceed, and sets limits that are 0.
func fitQuota(q, used atoll.Quota, ft atoll.Features, l *atoll.Resources) error {
	var errs []error
	if q.Sandboxes > 0 && used.Sandboxes+1 > q.Sandboxes {
		errs = append(errs, fmt.Errorf("%w: %d of %d sandboxes exist; destroy one", atoll.ErrQuota, used.Sandboxes, q.Sandboxes))
	}
	if ft.CPULimit || l.CPU > 0 {
		errs = append(errs, fitLimit("cpu", q.CPU, used.CPU, defaultCPU, &l.CPU))
	}
	errs = append(errs, fitLimit("memory", q.Memory, used.Memory, defaultMemory, &l.Memory), fitLimit("disk", q.Disk, used.Disk, defaultDisk, &l.Disk))
	return errors.Join(errs...)
}

// fitLimit sets a limit that is 0, and refuses one beyond the quota.
func fitLimit[T int64 | float64](what string, quota, used, usual T, l *T) error {
	switch {
	case quota < 0:
		return nil
	case *l == 0:
		*l = min(usual, quota)
	case *l < 0:
		return fmt.Errorf("%w: limits.%s: must be set, as the quota is %v", atoll.ErrQuota, what, quota)
	}
	if *l > quota-used { // a sum could overflow
		return fmt.Errorf("%w: limits.%s: %v in addition to the %v in use exceeds the quota of %v", atoll.ErrQuota, what, *l, used, quota)
	}
	return nil
}

// Allowance returns the caller's quota and its usage.
func (a *Account) Allowance(ctx context.Context) (atoll.Allowance, error) {
	if err := a.checkScope("quota", atoll.ScopeRead); err != nil {
		return atoll.Allowance{}, err
	}
	l, err := a.f.queryAllowance(ctx, a.caller.Owner)
	if err != nil {
		return l, &atoll.Error{Op: "quota", Err: err}
	}
	return l, nil
}

// Allowances returns the quota and usage of a page of owners, by name, and the name of its last owner as the cursor for
// the next page; empty: there is none. They are those that have a sandbox, a workspace, a token or a quota of their own.
// Running commands are those of this server. After is the cursor that the page before ended with; limit is from 1 to
// MaxPage. It needs ScopeOperate.
func (a *Account) Allowances(ctx context.Context, after string, limit int) (list []atoll.Allowance, next string, err error) {
	if err := a.checkScope("list quotas", atoll.ScopeOperate); err != nil {
		return nil, "", err
	}
	list, next, err = a.f.queryAllowances(ctx, after, limit)
	if err != nil {
		return nil, "", &atoll.Error{Op: "list quotas", Err: err}
	}
	return list, next, nil
}

func (f *Fleet) queryAllowances(ctx context.Context, after string, limit int) (list []atoll.Allowance, next string, err error) {
	if limit < 1 || limit > MaxPage {
		return nil, "", fmt.Errorf("%w: limit %d: from 1 to %d", atoll.ErrInvalid, limit, MaxPage)
	}
	var last atoll.Owner
	if after != "" {
		if last, err = atoll.ParseOwner(after); err != nil {
			return nil, "", fmt.Errorf("after: %w", err)
		}
	}
	owners, err := f.queryOwners(ctx, last, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(owners) > limit {
		owners, next = owners[:limit], owners[limit-1].String()
	}
	list = make([]atoll.Allowance, len(owners))
	for i, o := range owners {
		if list[i], err = f.queryAllowance(ctx, o); err != nil {
			return nil, "", err
		}
	}
	return list, next, nil
}

// queryOwners returns the first owners after one, by name.
func (f *Fleet) queryOwners(ctx context.Context, after atoll.Owner, most int) (list []atoll.Owner, err error) {
	rows, err := f.registry.DB.QueryContext(ctx, `select app, user from (
		select app, user from quotas union select app, user from workspaces union
		select app, user from tokens where`+liveToken+` union
		select app, user from sandboxes where pool = '' and state <> 'destroyed') o
		where app > ? or app = ? and user > ? order by app, user limit ?`, registry.Timestamp(f.now()), after.App, after.App, after.User, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var o atoll.Owner
		if err := rows.Scan(&o.App, &o.User); err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, rows.Err()
}

func (f *Fleet) queryAllowance(ctx context.Context, o atoll.Owner) (l atoll.Allowance, err error) {
	tx, err := f.registry.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return l, err
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	l.Owner = o
	if l.Limit, err = f.quotaOf(ctx, tx, o); err != nil {
		return l, err
	}
	if l.Used, err = f.sandboxUsage(ctx, tx, o); err != nil {
		return l, err
	}
	n, bytes, err := f.workspaceUsage(ctx, tx, o)
	if err != nil {
		return l, err
	}
	kept, err := keptDiskBytes(ctx, tx, o)
	l.Used.Workspaces = n
	l.Used.Disk += bytes + kept
	l.Used.Processes = f.commandCounts.countOf(o)
	if err == nil {
		var s model.Usage
		s, err = f.spending.UsageSince(ctx, model.Caller{Owner: o}, monthStart(f.now()))
		l.Used.Tokens, l.Used.Cost = s.Input+s.CacheRead+s.CacheWrite+s.Output, s.Cost
	}
	return l, err
}

// SetQuota sets the quota of an owner. It needs ScopeOperate.
func (a *Account) SetQuota(ctx context.Context, o atoll.Owner, q atoll.Quota) error {
	if err := a.checkScope("quota", atoll.ScopeOperate); err != nil {
		return err
	}
	noted := a.startAudit("quota", o.String(), fmt.Sprintf("%+v", q))
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
	defer f.commandCounts.invalidateLimit(o)
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into quotas (app, user, quota) values (?, ?, ?) on conflict (app, user) do update set quota = excluded.quota", o.App, o.User, string(b))
		return err
	})
}

// commandCounter counts the running commands of each owner in this process.
type commandCounter struct {
	mu     sync.Mutex
	owners map[atoll.Owner]*ownerCommands // guarded by mu
}

// ownerCommands is the count of one owner.
type ownerCommands struct {
	n     int
	limit int
	read  int64 // when limit was read from the registry, in nanoseconds
}

func (c *commandCounter) countOf(o atoll.Owner) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.owners[o]; k != nil {
		return k.n
	}
	return 0
}

// invalidateLimit makes the next command read the limit again.
func (c *commandCounter) invalidateLimit(o atoll.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.owners[o]; k != nil {
		k.read = 0
	}
}

// tryAdd counts one more command within the limit. Ok is false if the limit must be read first.
func (c *commandCounter) tryAdd(o atoll.Owner, now int64) (ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.owners[o]
	if k == nil || now-k.read > int64(quotaCacheTime) {
		return false, nil
	}
	if k.limit >= 0 && k.n >= k.limit {
		return true, fmt.Errorf("%w: %d commands are running; wait until one ends", atoll.ErrQuota, k.n)
	}
	k.n++
	return true, nil
}

func (c *commandCounter) setLimit(o atoll.Owner, limit int, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners == nil {
		c.owners = make(map[atoll.Owner]*ownerCommands)
	}
	if c.owners[o] == nil {
		c.owners[o] = &ownerCommands{}
	}
	c.owners[o].limit, c.owners[o].read = limit, now
}

func (c *commandCounter) release(o atoll.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owners[o].n--
}

// quotaCacheTime is how long a limit of commands is cached.
const quotaCacheTime = 5 * refreshInterval

// countCommand counts a command that begins, or refuses it beyond the owner's quota.
func (f *Fleet) countCommand(ctx context.Context, o atoll.Owner) error {
	now := f.now().UnixNano()
	for {
		if ok, err := f.commandCounts.tryAdd(o, now); ok {
			return err
		}
		q, err := f.quotaOf(ctx, f.registry.DB, o)
		if err != nil {
			return err
		}
		f.commandCounts.setLimit(o, q.Processes, now)
	}
}
