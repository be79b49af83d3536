package assistant

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// warmAgent is the sandbox and the process of an agent between the turns of a chat. One turn has it, or the pool.
type warmAgent struct {
	owner   atoll.Owner
	chat    string
	sandbox string
	path    []string                    // placement.path
	destroy func(context.Context) error // removes the sandbox
	place   string                      // placementKey of the sandbox
	app     *App                        // that the process was started with
	created time.Time                   // of the sandbox

	key      string         // processKey of the process
	session  *agent.Session // the process; nil: it has ended
	services *turnServices  // of the process

	resumes string // the agent's own session id after the last turn
	turn    string // the last turn

	timer *time.Timer // ends it; set while the pool has it
}

// maxWarmAge is the age of a sandbox after which no further turn begins in it: it is removed after 8 hours at the latest, with what
// runs in it.
const maxWarmAge = 4 * time.Hour

// endProcess ends the process.
func (w *warmAgent) endProcess() {
	if w.session != nil {
		_ = w.session.Close() // never fails
		w.session = nil
	}
}

// end ends the process and removes the sandbox.
func (w *warmAgent) end(ctx context.Context) error {
	w.endProcess()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := w.destroy(ctx); err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	return nil
}

// warmPool has the agents that wait for the next turn of their chats. Its methods are safe for concurrent use.
type warmPool struct {
	idle time.Duration // after which an agent is ended
	most int           // agents that wait at once; the one that waits longest is ended for another
	fail func(w *warmAgent, err error)

	mu      sync.Mutex
	waiting []*warmAgent // guarded by mu: the longest waiting first
	closed  bool         // guarded by mu
	ending  sync.WaitGroup
}

// put gives an agent to the pool, which ends it when its time has come.
func (p *warmPool) put(w *warmAgent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.endLater(w)
		return
	}
	p.waiting = append(p.waiting, w)
	w.timer = time.AfterFunc(p.idle, func() { p.endWaiting(func(o *warmAgent) bool { return o == w }) })
	for len(p.waiting) > p.most {
		first := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.endLater(first)
	}
}

// take removes the agent of a chat from the pool; nil: none waits.
func (p *warmPool) take(owner atoll.Owner, chat string) *warmAgent {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.waiting, func(w *warmAgent) bool { return w.owner == owner && w.chat == chat })
	if i < 0 {
		return nil
	}
	w := p.waiting[i]
	p.waiting = slices.Delete(p.waiting, i, i+1)
	w.timer.Stop()
	return w
}

// endWaiting ends the agents that which selects, in the background. It returns their number.
func (p *warmPool) endWaiting(which func(*warmAgent) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	p.waiting = slices.DeleteFunc(p.waiting, func(w *warmAgent) bool {
		if !which(w) {
			return false
		}
		n++
		p.endLater(w)
		return true
	})
	return n
}

// endLater ends an agent in the background. The caller holds mu.
func (p *warmPool) endLater(w *warmAgent) {
	if w.timer != nil {
		w.timer.Stop()
	}
	p.ending.Go(func() {
		if err := w.end(context.Background()); err != nil {
			p.fail(w, err)
		}
	})
}

// close ends all agents, also those that are put later.
func (p *warmPool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.endWaiting(func(*warmAgent) bool { return true })
}

// wait waits until the agents that are being ended have ended.
func (p *warmPool) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		p.ending.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: agents did not end in time", atoll.ErrTimeout)
	}
}

// EndIdle ends the agents of an owner that wait for the next turn of their chats, and waits for that. Their sandboxes and workspaces are
// then no longer in use. It returns the number of agents that it has ended.
func (p *Pipeline) EndIdle(ctx context.Context, owner atoll.Owner) (int, error) {
	n := p.warm.endWaiting(func(w *warmAgent) bool { return w.owner == owner })
	if n == 0 {
		return 0, nil
	}
	return n, p.warm.wait(ctx)
}

// Close ends the agents that wait for the next turn of their chats. The turns must have ended.
func (p *Pipeline) Close(ctx context.Context) error {
	p.warm.close()
	return p.warm.wait(ctx)
}

// hashKey returns a key of settings.
func hashKey(settings any) (string, error) {
	b, err := json.Marshal(settings)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}

// placementKey returns the key of everything that decides what the turn's sandbox is like, and who may use it.
func (r *turnRun) placementKey() (string, error) {
	caller := r.request.Account.Caller()
	scopes := slices.Sorted(slices.Values(caller.Scopes))
	cfg := r.placement.config
	cfg.Labels = maps.Clone(cfg.Labels)
	delete(cfg.Labels, TurnLabel)
	delete(cfg.Labels, RegistryLabel)
	return hashKey([]any{
		r.targetName(), r.placement.workspace, r.placement.dir, r.placement.state, cfg, r.placement.asked,
		caller.Owner, scopes, caller.Token, caller.Link,
	})
}

// processKey returns the key of everything that an agent's process is started with, except for the prompt.
func (r *turnRun) processKey(job *agent.Job) (string, error) {
	t := job.Turn
	t.ID, t.Prompt, t.Session = "", nil, ""
	return hashKey([]any{job.Agent.Name(), t, job.Dir, job.State, job.Path, job.Idle, job.Model != nil, r.listTools()})
}

// keepsWarm reports whether the turn's agent may wait for the next turn of the chat: it has a sandbox of its own, and its process accepts
// many prompts.
func (r *turnRun) keepsWarm(t *agent.Turn) bool {
	return r.pipeline.warm.idle > 0 && r.request.Sandbox == "" && r.agent != nil && r.agent.Features().AcceptsPrompts(t) && r.agent.Features().Resume
}

// takeWarm takes over the sandbox, and if there is one the process, that the last turn of the chat has left for this one. It returns false
// if there is none that fits.
func (r *turnRun) takeWarm(ctx context.Context) bool {
	w := r.pipeline.warm.take(r.chat.Owner, r.chat.ID)
	if w == nil {
		return false
	}
	key, err := r.placementKey()
	fits := err == nil && r.request.Sandbox == "" && w.place == key && w.app == r.app && w.turn == r.chat.Turn && w.session.AcceptsPrompt() &&
		r.pipeline.currentTime().Sub(w.created) < maxWarmAge
	var sb *fleet.Sandbox
	if fits {
		sb, err = r.request.Account.OpenForTurn(ctx, w.sandbox)
	}
	if !fits || err != nil { // it may have been destroyed
		if err := w.end(ctx); err != nil {
			r.pipeline.warm.fail(w, err)
		}
		return false
	}
	w.destroy = sb.Destroy
	r.warm, r.destroy, r.placement.path = w, sb.Destroy, w.path
	r.useSandbox(sb)
	return true
}

// runWarm runs the turn as a further prompt of the process that waited for it. It returns false if that can't run it: the process has
// ended then.
func (r *turnRun) runWarm(ctx context.Context, job *agent.Job, key string) (res agent.Result, ok bool, err error) {
	w := r.warm
	if w == nil || w.session == nil {
		return res, false, nil
	}
	if w.key != key || job.Turn.Session == "" || job.Turn.Session != w.resumes {
		w.endProcess()
		return res, false, nil
	}
	journal, err := r.keepTurn(ctx)
	if err != nil {
		return res, false, err
	}
	if journal == "" {
		if err := r.setSent(); err != nil {
			return res, false, err
		}
	}
	w.services.attach(ctx, r, job)
	s := w.session
	err = s.StartPrompt(ctx, agent.NextPrompt{Prompt: job.Turn.Prompt, Turn: r.id, Journal: journal, Emit: r.emitAttached, Decide: job.Decide})
	if err != nil { // nothing was sent
		r.pipeline.log.Debug("warm agent not used", "turn", r.id, "err", err)
		w.services.detach()
		w.endProcess()
		return res, false, context.Cause(ctx)
	}
	if err := r.setSent(); err != nil {
		r.pipeline.log.Warn("queued turn not marked as sent", "turn", r.id, "err", err)
	}
	res, err = r.waitSession(ctx, s)
	if err == nil && res.Outcome == agent.Crashed && !r.answered.Load() {
		r.parted.Store(false) // the process had ended before it got the prompt
		return res, false, nil
	}
	return res, true, err
}

// startWarm starts the agent's process so that it can run further turns.
func (r *turnRun) startWarm(ctx context.Context, job agent.Job, key string) (*agent.Session, error) {
	w := r.warm
	if w == nil {
		place, err := r.placementKey()
		if err != nil {
			return nil, err
		}
		w = &warmAgent{
			owner: r.chat.Owner, chat: r.chat.ID, sandbox: r.sb.ID(), path: r.placement.path, destroy: r.destroy, place: place, app: r.app, created: r.pipeline.currentTime(),
		}
	}
	w.key, w.services = key, &turnServices{}
	w.services.attach(ctx, r, &job)
	job.Once, job.Emit = false, r.emitAttached
	if job.Model != nil {
		job.Model = w.services
	}
	if job.Tools != nil {
		job.Tools = r.serveWarmTools(w.services)
	}
	// The process outlives the turn, which stops its prompt by waitSession.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	s, err := agent.StartSession(life, job)
	if err != nil {
		w.services.detach()
		end(nil)
		return nil, err
	}
	stop()
	r.warm, w.session = w, s
	return s, nil
}

// emitAttached emits an event of the agent, unless the turn has ended: an agent may report something between two turns.
func (r *turnRun) emitAttached(e agent.Event) {
	if r.parted.Load() {
		return
	}
	if !slices.Contains([]agent.Type{agent.Started, agent.Finished, agent.Raw}, e.Type) {
		r.answered.Store(true)
	}
	r.emitEvent(e)
}

// canWait reports whether an agent may go on after a turn with this outcome.
func canWait(res agent.Result) bool {
	return res.Session != "" && slices.Contains([]agent.Outcome{agent.OK, agent.Refused, agent.MaxTurns, agent.Aborted}, res.Outcome)
}

// park leaves the turn's agent for the next turn of the chat. It returns false if that is not possible: the caller ends it.
func (r *turnRun) park(ctx context.Context, res agent.Result) bool {
	w := r.warm
	if w == nil || w.session == nil || ctx.Err() != nil || !canWait(res) || !w.session.AcceptsPrompt() || r.chat.Turn != r.id {
		return false
	}
	w.resumes, w.turn = res.Session, r.id
	r.warm, r.destroy = nil, func(context.Context) error { return nil }
	r.pipeline.warm.put(w)
	return true
}

// newWarmPool returns a pool with the limits of the options.
func newWarmPool(o *Options, fail func(*warmAgent, error)) *warmPool {
	return &warmPool{idle: o.AgentIdle, most: cmp.Or(o.IdleAgents, defaultIdleAgents), fail: fail}
}

// defaultIdleAgents limits the agents that wait at once: each may have hundreds of megabytes of memory.
const defaultIdleAgents = 8
