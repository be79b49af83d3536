package guest

import "context"

// OpQuit asks the guest to end, and with it all that runs beside it. It answers
// when it has ended the others.
const OpQuit Op = "quit"

// Quit ends the guest that there is a connection to, and reports whether nothing
// else runs there any more. It makes no connection.
func (l *Link) Quit(ctx context.Context) bool {
	l.mu.Lock()
	c := l.client
	l.mu.Unlock()
	return c != nil && c.call(ctx, OpQuit, nil, nil) == nil
}
