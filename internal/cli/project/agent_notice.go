package project

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"time"

	"github.com/spf13/pflag"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// noticeFlags say how the user is notified of an agent that waits or has ended.
type noticeFlags struct {
	bell    bool
	program string
	webhook string
}

func (f *noticeFlags) add(fl *pflag.FlagSet) {
	fl.BoolVar(&f.bell, "bell", false, "ring the terminal's bell when an agent waits or ends")
	fl.StringVar(&f.program, "notify", "", "run `PROGRAM` with a title and a text then, such as notify-send")
	fl.StringVar(&f.webhook, "webhook", "", "send the agent as JSON to this `URL` then")
}

// check checks the flags. watches: the command goes on after its first look.
func (f *noticeFlags) check(watches bool) error {
	if !watches && (f.bell || f.program != "" || f.webhook != "") {
		return fmt.Errorf("%w: --bell, --notify and --webhook need --watch or --wait", atoll.ErrInvalid)
	}
	if f.program != "" {
		path, err := exec.LookPath(f.program)
		if err != nil {
			return fmt.Errorf("--notify %s: %w: it must be a program; it gets a title and a text", f.program, atoll.ErrNotFound)
		}
		f.program = path
	}
	if f.webhook != "" {
		u, err := url.Parse(f.webhook)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%w: --webhook %q: must be http://… or https://…", atoll.ErrInvalid, f.webhook)
		}
	}
	return nil
}

// noticeTimeout limits one notification.
const noticeTimeout = 10 * time.Second

// send notifies the user. A failure is printed, and nothing else changes.
func (f *noticeFlags) send(ctx context.Context, a *app.App, one branchAgent) {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	if f.bell {
		fmt.Fprint(a.Err, "\a")
	}
	if f.program != "" {
		title := fmt.Sprintf("%s %s: %s", one.Sandbox, one.Branch, one.State)
		cmd := exec.CommandContext(ctx, f.program, output.OneLine(title), output.OneLine(one.summary())) // the title is not an option: it begins with a name
		cmd.WaitDelay = time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			a.Progress("atoll: --notify: %v %s", err, output.OneLine(string(out)))
		}
	}
	if f.webhook != "" {
		if err := postJSON(ctx, f.webhook, one); err != nil {
			a.Progress("atoll: --webhook: %v", err)
		}
	}
}

// postJSON sends a value to a URL.
func postJSON(ctx context.Context, to string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%w: %s", atoll.ErrUnavailable, res.Status)
	}
	return err
}
