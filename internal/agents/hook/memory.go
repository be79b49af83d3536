package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// callMemory is a Memory for one call.
type callMemory struct {
	values map[[2]string]json.RawMessage // by space and key
	size   int                           // bytes of all keys and values
}

func (l *callMemory) Get(_ context.Context, space, key string) (json.RawMessage, error) {
	return l.values[[2]string{space, key}], nil
}

// Set stores a value for the rest of the call; no ttl is shorter than that.
func (l *callMemory) Set(_ context.Context, space, key string, value json.RawMessage, _ time.Duration) error {
	k := [2]string{space, key}
	old, there := l.values[k]
	size := l.size - len(old) + len(value)
	if !there {
		size += len(key)
	}
	if !there && len(l.values) >= maxKeys || size > maxArgs {
		return fmt.Errorf("%w: memory: at most %d keys and %d bytes", atoll.ErrQuota, maxKeys, maxArgs)
	}
	l.values[k], l.size = slices.Clone(value), size
	return nil
}

func (l *callMemory) Delete(_ context.Context, space, key string) error {
	k := [2]string{space, key}
	if v, there := l.values[k]; there {
		l.size -= len(key) + len(v)
		delete(l.values, k)
	}
	return nil
}

func (l *callMemory) Keys(_ context.Context, space string) ([]string, error) {
	var list []string
	for k := range l.values {
		if k[0] == space {
			list = append(list, k[1])
		}
	}
	return list, nil
}
