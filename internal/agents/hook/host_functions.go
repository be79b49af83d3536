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

// hostFunctions are the functions of the host that a script can call.
var hostFunctions = map[string]func(*execution, arguments) (any, error){
	"now":           (*execution).elapsedMillis,
	"log":           (*execution).logLine,
	"message":       (*execution).sendMessage,
	"process":       (*execution).callProcess,
	"memory.get":    (*execution).memoryGet,
	"memory.set":    (*execution).memorySet,
	"memory.delete": (*execution).memoryDelete,
	"memory.has":    (*execution).memoryHas,
	"memory.keys":   (*execution).memoryKeys,
	"memory.clear":  (*execution).memoryClear,
	"info":          (*execution).sandboxInfo,
	"exec":          (*execution).exec,
	"run":           (*execution).runCommand,
	"stream":        (*execution).startStream,
	"stream.next":   (*execution).streamNext,
	"stream.data":   (*execution).streamData,
	"stream.stop":   (*execution).streamStop,
	"stream.exit":   (*execution).streamExit,
	"fs.read":       (*execution).readText,
	"fs.bytes":      (*execution).readBytes,
	"fs.write":      (*execution).writeFile,
	"fs.list":       (*execution).listDir,
	"fs.stat":       (*execution).stat,
	"fs.exists":     (*execution).fileExists,
	"fs.mkdir":      (*execution).makeDirectory,
	"fs.remove":     (*execution).removeFile,
	"fs.removeall":  (*execution).removeAll,
	"fs.rename":     (*execution).renameFile,
	"fs.copy":       (*execution).copy,
}

// scriptError is an error with additional fields for the script.
type scriptError struct {
	code  string
	text  string
	extra any
}

func (f *scriptError) Error() string { return f.text }

// callHost is the host function that the script calls. It returns no error to the
// engine: a failure is a list, from which the prelude makes an Error with a code.
func (r *execution) callHost(args []any) (any, error) {
	r.timer.pauseTimer()
	defer r.timer.resumeTimer()
	v, err := r.dispatchCall(args)
	if err == nil {
		return v, nil
	}
	code, extra := wire.ReasonOf(err).Kind, "{}"
	var f *scriptError
	if errors.As(err, &f) {
		code = f.code
		if b, err := json.Marshal(f.extra); err == nil && f.extra != nil {
			extra = string(b)
		}
	}
	return []any{code, clipText(err.Error(), maxLogLine), extra}, nil
}

func (r *execution) dispatchCall(args []any) (any, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	a := arguments(args)
	name, err := a.stringAt(0)
	if err != nil {
		return nil, err
	}
	f := hostFunctions[name]
	if f == nil {
		return nil, fmt.Errorf("%w: the host has no %q", atoll.ErrInvalid, name)
	}
	return f(r, a[1:])
}

// arguments are the untrusted arguments of a script's call.
type arguments []any

func (a arguments) stringAt(i int) (string, error) {
	if i < len(a) {
		if s, ok := a[i].(string); ok {
			return s, nil
		}
	}
	return "", fmt.Errorf("%w: argument %d must be a string", atoll.ErrInvalid, i)
}

func (a arguments) stringsAt(n int) ([]string, error) {
	list := make([]string, n)
	for i := range list {
		s, err := a.stringAt(i)
		if err != nil {
			return nil, err
		}
		list[i] = s
	}
	return list, nil
}

func (a arguments) numberAt(i int) float64 {
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

func (r *execution) elapsedMillis(arguments) (any, error) {
	return float64(time.Since(r.startedAt)) / 1e6, nil
}

// levels maps the script's log levels to slog's.
var levels = map[string]slog.Level{
	"trace": slog.LevelDebug - 4, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (r *execution) logLine(a arguments) (any, error) {
	s, err := a.stringsAt(2)
	if err != nil {
		return nil, err
	}
	r.logLines++
	if r.scope.Log != nil && r.logLines <= maxLogLines {
		r.scope.Log.Log(r.ctx, levels[s[0]], "hook", "function", r.function, "text", clipText(s[1], maxLogLine))
	}
	return nil, nil
}

// endLog logs how many lines were dropped.
func (r *execution) endLog() {
	if r.scope.Log != nil && r.logLines > maxLogLines {
		r.scope.Log.Warn("hook logs too much", "function", r.function, "dropped", r.logLines-maxLogLines)
	}
}

func (r *execution) sendMessage(a arguments) (any, error) {
	s, err := a.stringsAt(3)
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

func (r *execution) callProcess(a arguments) (any, error) {
	s, err := a.stringsAt(2)
	if err != nil {
		return nil, err
	}
	if r.scope.Process == nil {
		return nil, fmt.Errorf("%w: process %q: no processes are available", atoll.ErrNotFound, s[0])
	}
	var args []any
	if err := json.Unmarshal([]byte(s[1]), &args); err != nil {
		return nil, fmt.Errorf("%w: arguments of process %q", atoll.ErrInvalid, s[0])
	}
	v, err := r.scope.Process(r.ctx, s[0], args)
	if err != nil {
		return nil, fmt.Errorf("process %q: %w", s[0], err)
	}
	return encodeJSON(v)
}

// encodeJSON returns a value as JSON, or ErrQuota if it is too large for a script.
func encodeJSON(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) > maxArgs {
		return nil, fmt.Errorf("%w: a value of %d bytes is too large for a hook", atoll.ErrQuota, len(b))
	}
	return string(b), nil
}

// memoryStore returns the memory of the scope, or one for this call.
func (r *execution) memoryStore() Memory {
	if r.memory == nil {
		if r.memory = r.scope.Memory; r.memory == nil {
			r.memory = &callMemory{values: make(map[[2]string]json.RawMessage)}
		}
	}
	return r.memory
}

// spaceKey returns and checks the arguments space and key.
func spaceKey(a arguments) (space, key string, err error) {
	s, err := a.stringsAt(2)
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

func (r *execution) memoryGet(a arguments) (any, error) {
	space, key, err := spaceKey(a)
	if err != nil {
		return nil, err
	}
	v, err := r.memoryStore().Get(r.ctx, space, key)
	if err != nil || v == nil {
		return nil, err
	}
	return string(v), nil
}

func (r *execution) memoryHas(a arguments) (any, error) {
	v, err := r.memoryGet(a)
	return v != nil, err
}

func (r *execution) memorySet(a arguments) (any, error) {
	space, key, err := spaceKey(a)
	if err != nil {
		return nil, err
	}
	value, err := a.stringAt(2)
	if err != nil || !json.Valid([]byte(value)) {
		return nil, fmt.Errorf("%w: memory: the value of %q is not JSON", atoll.ErrInvalid, key)
	}
	if len(value) > maxValue {
		return nil, fmt.Errorf("%w: memory: the value of %q has %d bytes: at most %d", atoll.ErrQuota, key, len(value), maxValue)
	}
	seconds := a.numberAt(3)
	if math.IsNaN(seconds) || seconds < 0 || seconds > 100*365*86400 {
		return nil, fmt.Errorf("%w: memory: a time of %v seconds", atoll.ErrInvalid, seconds)
	}
	return nil, r.memoryStore().Set(r.ctx, space, key, json.RawMessage(value), time.Duration(seconds*float64(time.Second)))
}

func (r *execution) memoryDelete(a arguments) (any, error) {
	space, key, err := spaceKey(a)
	if err != nil {
		return nil, err
	}
	return nil, r.memoryStore().Delete(r.ctx, space, key)
}

func (r *execution) memoryKeys(a arguments) (any, error) {
	space, err := a.stringAt(0)
	if err == nil {
		err = checkSpace(space)
	}
	if err != nil {
		return nil, err
	}
	keys, err := r.memoryStore().Keys(r.ctx, space)
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	return encodeJSON(append([]string{}, keys...))
}

func (r *execution) memoryClear(a arguments) (any, error) {
	space, err := a.stringAt(0)
	if err == nil {
		err = checkSpace(space)
	}
	if err != nil {
		return nil, err
	}
	keys, err := r.memoryStore().Keys(r.ctx, space)
	for _, k := range keys {
		err = errors.Join(err, r.memoryStore().Delete(r.ctx, space, k))
	}
	return nil, err
}
