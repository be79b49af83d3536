package guest

import "context"

// OpQuit asks the guest to kill all other processes and to end. It answers when the others have
// been killed.
const OpQuit Op = "quit"

// Quit ends the guest if there is a connection to it, and reports whether the guest has killed
// all other processes. It does not connect.
func (l *Link) Quit(ctx context.Context) bool {
	l.mu.Lock()
	c := l.client
	l.mu.Unlock()
	return c != nil && c.Call(ctx, OpQuit, nil, nil) == nil
}
