package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// ops is all that a script can ask of the host.
var ops = map[string]func(*run, operands) (any, error){
	"now":           (*run).now,
	"log":           (*run).log,
	"message":       (*run).message,
	"process":       (*run).process,
	"memory.get":    (*run).memoryGet,
	"memory.set":    (*run).memorySet,
	"memory.delete": (*run).memoryDelete,
	"memory.has":    (*run).memoryHas,
	"memory.keys":   (*run).memoryKeys,
	"memory.clear":  (*run).memoryClear,
	"info":          (*run).info,
	"exec":          (*run).exec,
	"run":           (*run).runCommand,
	"stream":        (*run).streamBegin,
	"stream.next":   (*run).streamNext,
	"stream.data":   (*run).streamData,
	"stream.stop":   (*run).streamStop,
	"stream.exit":   (*run).streamExit,
	"fs.read":       (*run).readText,
	"fs.bytes":      (*run).readBytes,
	"fs.write":      (*run).writeFile,
	"fs.list":       (*run).listDir,
	"fs.stat":       (*run).stat,
	"fs.exists":     (*run).exists,
	"fs.mkdir":      (*run).mkdir,
	"fs.remove":     (*run).remove,
	"fs.removeall":  (*run).removeAll,
	"fs.rename":     (*run).rename,
	"fs.copy":       (*run).copy,
}

// failure is an error that a script gets with fields of its own.
type failure struct {
	code  string
	text  string
	extra any
}

func (f *failure) Error() string { return f.text }

// host is what the script calls. It never fails for the engine: a failure is a
// list, of which the script makes an Error with a code.
func (r *run) host(args []any) (any, error) {
	r.clock.pause()
	defer r.clock.resume()
	v, err := r.dispatch(args)
	if err == nil {
		return v, nil
	}
	code, extra := wire.ReasonOf(err).Kind, "{}"
	var f *failure
	if errors.As(err, &f) {
		code = f.code
		if b, err := json.Marshal(f.extra); err == nil && f.extra != nil {
			extra = string(b)
		}
	}
	return []any{code, clip(err.Error(), maxLogLine), extra}, nil
}

func (r *run) dispatch(args []any) (any, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	a := operands(args)
	name, err := a.text(0)
	if err != nil {
		return nil, err
	}
	f := ops[name]
	if f == nil {
		return nil, fmt.Errorf("%w: the host has no %q", atoll.ErrInvalid, name)
	}
	return f(r, a[1:])
}

// operands are what a script gives: nothing of it is believed.
type operands []any

func (a operands) text(i int) (string, error) {
	if i < len(a) {
		if s, ok := a[i].(string); ok {
			return s, nil
		}
	}
	return "", fmt.Errorf("%w: argument %d must be a string", atoll.ErrInvalid, i)
}

func (a operands) texts(n int) ([]string, error) {
	list := make([]string, n)
	for i := range list {
		s, err := a.text(i)
		if err != nil {
			return nil, err
		}
		list[i] = s
	}
	return list, nil
}

func (a operands) number(i int) float64 {
	if i < len(a) {
		switch n := a[i].(type) {
		case int:
			return float64(n)
		case float64:
			return n
		}
	}
	return 0
}

func (r *run) now(operands) (any, error) { return float64(time.Since(r.begun)) / 1e6, nil }

// levels are slog's for the script's words.
var levels = map[string]slog.Level{
	"trace": slog.LevelDebug - 4, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (r *run) log(a operands) (any, error) {
	s, err := a.texts(2)
	if err != nil {
		return nil, err
	}
	r.logLines++
	if r.scope.Log != nil && r.logLines <= maxLogLines {
		r.scope.Log.Log(r.ctx, levels[s[0]], "hook", "function", r.function, "text", clip(s[1], maxLogLine))
	}
	return nil, nil
}

// endLog says what was not logged.
func (r *run) endLog() {
	if r.scope.Log != nil && r.logLines > maxLogLines {
		r.scope.Log.Warn("hook logs too much", "function", r.function, "dropped", r.logLines-maxLogLines)
	}
}

func (r *run) message(a operands) (any, error) {
	s, err := a.texts(3)
	if err != nil {
		return nil, err
	}
	r.lastMessage++
	if r.lastMessage > maxMessages || len(s[2]) > maxMessage {
		return nil, fmt.Errorf("%w: at most %d messages of %d bytes", atoll.ErrQuota, maxMessages, maxMessage)
	}
	var m json.RawMessage
	if s[2] != "" {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(s[2]), &fields); err != nil || fields == nil {
			return nil, fmt.Errorf("%w: a message must be an object", atoll.ErrInvalid)
		}
		m = json.RawMessage(s[2])
	}
	if r.scope.Output != nil {
		return r.scope.Output.Message(r.ctx, s[0], s[1], m)
	}
	if s[1] == "" {
		s[1] = fmt.Sprintf("m%d", r.lastMessage)
	}
	return s[1], nil
}

func (r *run) process(a operands) (any, error) {
	s, err := a.texts(2)
	if err != nil {
		return nil, err
	}
	if r.scope.Process == nil {
		return nil, fmt.Errorf("%w: process %q: there are none here", atoll.ErrNotFound, s[0])
	}
	var args []any
	if err := json.Unmarshal([]byte(s[1]), &args); err != nil {
		return nil, fmt.Errorf("%w: arguments of process %q", atoll.ErrInvalid, s[0])
	}
	v, err := r.scope.Process(r.ctx, s[0], args)
	if err != nil {
		return nil, fmt.Errorf("process %q: %w", s[0], err)
	}
	return encoded(v)
}

// encoded is a value as JSON, of a size that a script can take.
func encoded(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) > maxArgs {
		return nil, fmt.Errorf("%w: a value of %d bytes is too large for a hook", atoll.ErrQuota, len(b))
	}
	return string(b), nil
}

// store is the memory of the scope, or one for this call.
func (r *run) store() Memory {
	if r.memory == nil {
		if r.memory = r.scope.Memory; r.memory == nil {
			r.memory = &local{values: make(map[[2]string]json.RawMessage)}
		}
	}
	return r.memory
}

// spaceKey checks which value is meant.
func spaceKey(a operands) (space, key string, err error) {
	s, err := a.texts(2)
	if err != nil {
		return "", "", err
	}
	if err := checkSpace(s[0]); err != nil {
		return "", "", err
	}
	if s[1] == "" || len(s[1]) > maxKey {
		return "", "", fmt.Errorf("%w: a key has 1 to %d bytes", atoll.ErrInvalid, maxKey)
	}
	return s[0], s[1], nil
}

func checkSpace(s string) error {
	if !slices.Contains([]string{"user", "team", "chat", "context"}, s) {
		return fmt.Errorf("%w: memory %q", atoll.ErrInvalid, s)
	}
	return nil
}

func (r *run) memoryGet(a operands) (any, error) {
	space, key, err := spaceKey(a)
	if err != nil {
		return nil, err
	}
	v, err := r.store().Get(r.ctx, space, key)
	if err != nil || v == nil {
		return nil, err
	}
	return string(v), nil
}

func (r *run) memoryHas(a operands) (any, error) {
	v, err := r.memoryGet(a)
	return v != nil, err
}

func (r *run) memorySet(a operands) (any, error) {
	space, key, err := spaceKey(a)
	if err != nil {
		return nil, err
	}
	value, err := a.text(2)
	if err != nil || !json.Valid([]byte(value)) {
		return nil, fmt.Errorf("%w: memory: the value of %q is not JSON", atoll.ErrInvalid, key)
	}
	if len(value) > maxValue {
		return nil, fmt.Errorf("%w: memory: the value of %q has %d bytes: at most %d", atoll.ErrQuota, key, len(value), maxValue)
	}
	seconds := a.number(3)
	if math.IsNaN(seconds) || seconds < 0 || seconds > 100*365*86400 {
		return nil, fmt.Errorf("%w: memory: a time of %v seconds", atoll.ErrInvalid, seconds)
	}
	return nil, r.store().Set(r.ctx, space, key, json.RawMessage(value), time.Duration(seconds*float64(time.Second)))
}

func (r *run) memoryDelete(a operands) (any, error) {
	space, key, err := spaceKey(a)
	if err != nil {
		return nil, err
	}
	return nil, r.store().Delete(r.ctx, space, key)
}

func (r *run) memoryKeys(a operands) (any, error) {
	space, err := a.text(0)
	if err == nil {
		err = checkSpace(space)
	}
	if err != nil {
		return nil, err
	}
	keys, err := r.store().Keys(r.ctx, space)
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	return encoded(append([]string{}, keys...))
}

func (r *run) memoryClear(a operands) (any, error) {
	space, err := a.text(0)
	if err == nil {
		err = checkSpace(space)
	}
	if err != nil {
		return nil, err
	}
	keys, err := r.store().Keys(r.ctx, space)
	for _, k := range keys {
		err = errors.Join(err, r.store().Delete(r.ctx, space, k))
	}
	return nil, err
}
