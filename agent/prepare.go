package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
)

const (
	attachmentsDir = ".attachments" // directory of the workspace
	toolName       = "atoll-tool"
	placedListName = ".placed" // in Environment.State: the files that the last turn placed there
	maxPlacedList  = 1 << 20   // bytes of that list
	parallelWrites = 8
	maxNameLen     = 120 // bytes of an attachment's name
	defaultPath    = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// prepareSandbox places all files that a turn needs, starts its services, and
// returns the command that runs the agent, and what another process needs to know to continue it.
func (s *Session) prepareSandbox(ctx context.Context) (atoll.Cmd, sessionStart, error) {
	j := &s.job
	in, err := s.setUpEnvironment(ctx)
	if err != nil {
		return atoll.Cmd{}, sessionStart{}, err
	}
	setDefault(&j.Dir, in.dir)
	if err := checkSeparateDirs(j.Dir, j.State); err != nil {
		return atoll.Cmd{}, sessionStart{}, fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	site := Environment{Dir: path.Clean(j.Dir), State: path.Join(j.State, j.Agent.Name()), Root: in.root}
	dirs, env := slices.Clone(j.Path), slices.Clone(j.Turn.Env)
	if in.model != "" {
		site.Model = "http://" + in.model
	}
	if in.tool != "" {
		site.Tools = []string{in.tool, "mcp", in.tools}
		dirs, env = append(dirs, path.Dir(in.tool)), append(env, "ATOLL_TOOLS="+in.tools)
	}
	if err := placeAttachments(ctx, j.Sandbox, site.Dir, j.Turn.Prompt); err != nil {
		return atoll.Cmd{}, sessionStart{}, err
	}
	plan, err := j.Agent.Plan(&j.Turn, site)
	if err != nil {
		return atoll.Cmd{}, sessionStart{}, err
	}
	if err := placeFiles(ctx, j.Sandbox, site.State, plan.Files); err != nil {
		return atoll.Cmd{}, sessionStart{}, err
	}
	if len(dirs) > 0 {
		env = append(env, "PATH="+strings.Join(append(dirs, in.path), ":"))
	}
	s.stdin.add(plan.Stdin)
	setDefault(&plan.Dir, site.Dir)
	start := sessionStart{Turn: j.Turn, Environment: site, Model: in.model, Tools: in.tools, Stdin: plan.Stdin}
	return atoll.Cmd{Args: plan.Args, Dir: plan.Dir, Env: append(env, plan.Env...), Timeout: -1}, start, nil
}

// environment is what a turn finds in the sandbox or places there.
type environment struct {
	root        bool
	dir, path   string // defaults of the sandbox's commands
	model       string // address of the model endpoint; empty: none
	tools, tool string // address of the tools, and the program that connects to it
}

// setUpEnvironment starts the services, places the tool program and probes the
// sandbox, in parallel.
func (s *Session) setUpEnvironment(ctx context.Context) (environment, error) {
	j := &s.job
	var in environment
	tasks := []func() error{func() (err error) {
		in.root, in.dir, in.path, err = probeSandbox(ctx, j.Sandbox)
		return err
	}}
	if j.Model != nil && s.features.API != "" {
		tasks = append(tasks, func() (err error) {
			in.model, err = s.services.serveModel(ctx, j.Sandbox, anyAddress, j.Model)
			return err
		})
	}
	if j.Tools != nil {
		tasks = append(tasks, func() (err error) {
			in.tools, err = s.services.serveTools(ctx, j.Sandbox, anyAddress, j.Tools)
			return err
		}, func() (err error) {
			in.tool, err = placeTool(ctx, j.Sandbox, j.State, j.ToolProgram)
			return err
		})
	}
	err := runParallel(len(tasks), len(tasks), func(i int) error { return tasks[i]() })
	return in, err
}

// runParallel calls f for 0 to n-1, at most most at once, and joins the errors.
func runParallel(n, most int, f func(int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	places := make(chan struct{}, most)
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			errs[i] = f(i)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// probeSandbox returns whether commands run as root, their directory and their
// PATH. A sandbox without a shell reports only root; the others have defaults.
func probeSandbox(ctx context.Context, sb atoll.Sandbox) (root bool, dir, programs string, err error) {
	exit, err := sb.Exec(ctx, atoll.Cmd{Internal: true, Args: []string{"sh", "-c", `id -u; pwd; printf '%s\n' "$PATH"`}})
	if err == nil && exit.Code != 0 {
		exit, err = sb.Exec(ctx, atoll.Cmd{Internal: true, Args: []string{"id", "-u"}})
	}
	if err != nil {
		return false, "", "", err
	}
	lines := append(strings.Split(strings.TrimSpace(string(exit.Stdout)), "\n"), "", "", "")
	uid, err := strconv.Atoi(lines[0])
	root, dir, programs = err == nil && uid == 0, lines[1], lines[2]
	setDefault(&dir, "/")
	setDefault(&programs, defaultPath)
	return root, dir, programs, nil
}

// placeTool writes the program that connects to the tools into a directory of the
// agents' state that is named after its content, and returns its path. It writes
// it for each turn and removes all other files there: an earlier turn may have
// left anything, and the directory is on PATH.
func placeTool(ctx context.Context, sb atoll.Sandbox, state, program string) (string, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("the tool program: %w", err)
	}
	sum := sha256.Sum256(data)
	bin := path.Join(state, "bin")
	dir := path.Join(bin, hex.EncodeToString(sum[:8]))
	name := path.Join(dir, toolName)
	for _, d := range []string{bin, dir} {
		if err := removeWrongType(ctx, sb, d, fs.FileMode.IsDir); err != nil {
			return "", err
		}
	}
	there, err := atoll.ReadDir(ctx, sb, dir)
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return "", err
	}
	for _, f := range there {
		if f.Name() == toolName && f.Mode().IsRegular() {
			continue // replaced atomically below, since another turn may use it
		}
		if err := atoll.Remove(ctx, sb, path.Join(dir, f.Name())); err != nil && !errors.Is(err, atoll.ErrNotFound) {
			return "", err
		}
	}
	return name, atoll.WriteFile(ctx, sb, name, data, 0o755)
}

// removeWrongType removes a file that an earlier turn may have left at name with
// another type than meant.
func removeWrongType(ctx context.Context, sb atoll.Sandbox, name string, meant func(fs.FileMode) bool) error {
	info, err := atoll.Stat(ctx, sb, name)
	if err == nil && !meant(info.Mode()) {
		err = atoll.Remove(ctx, sb, name)
	}
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}

// retryAfterClearing calls f, which creates or writes name. If f fails and name, or
// a parent of it beneath root, has the wrong type, it removes that and calls f again.
func retryAfterClearing(ctx context.Context, sb atoll.Sandbox, root, name string, meant func(fs.FileMode) bool, f func() error) error {
	err := f()
	for at := name; err != nil && strings.HasPrefix(at, root+"/"); at = path.Dir(at) {
		if info, serr := atoll.Stat(ctx, sb, at); serr == nil && !meant(info.Mode()) {
			if rerr := atoll.Remove(ctx, sb, at); rerr != nil {
				return errors.Join(err, rerr)
			}
			return f()
		}
		meant = fs.FileMode.IsDir // all parents
	}
	return err
}

// placeFiles writes the files of a plan, and removes the files that an earlier plan
// placed and this one does not have: an agent would find them.
func placeFiles(ctx context.Context, sb atoll.Sandbox, state string, files []File) error {
	if err := retryAfterClearing(ctx, sb, path.Dir(state), state, fs.FileMode.IsDir, func() error { return atoll.Mkdir(ctx, sb, state, 0o700) }); err != nil {
		return err
	}
	list := path.Join(state, placedListName)
	old, err := readPlacedList(ctx, sb, list)
	if err != nil {
		return err
	}
	now := make([]string, 0, len(files))
	for _, f := range files {
		now = append(now, path.Clean(f.Path))
	}
	slices.Sort(now)
	if !slices.Equal(old, now) {
		// Recorded first, so that the written files are known whatever happens next.
		both, err := json.Marshal(slices.Compact(slices.Sorted(slices.Values(slices.Concat(old, now)))))
		if err != nil {
			return err
		}
		if err := atoll.WriteFile(ctx, sb, list, both, 0o600); err != nil {
			return err
		}
	}
	if err := writeFiles(ctx, sb, path.Dir(state), files); err != nil || slices.Equal(old, now) {
		return err
	}
	if err := removeStaleFiles(ctx, sb, state, old, now); err != nil {
		return err
	}
	b, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return atoll.WriteFile(ctx, sb, list, b, 0o600)
}

// writeFiles writes files and makes each directory once. Files of the wrong type
// beneath root that are in the way are removed.
func writeFiles(ctx context.Context, sb atoll.Sandbox, root string, files []File) error {
	direct, fast := atoll.As[atoll.DirFS](sb)
	if !fast {
		return runParallel(len(files), 1, func(i int) error {
			return retryAfterClearing(ctx, sb, root, path.Clean(files[i].Path), fs.FileMode.IsRegular, func() error {
				return atoll.WriteFile(ctx, sb, files[i].Path, files[i].Data, fileMode(files[i]))
			})
		})
	}
	dirs := make(map[string]bool)
	for _, f := range files {
		if !path.IsAbs(f.Path) || strings.IndexByte(f.Path, 0) >= 0 {
			return fmt.Errorf("%w: the file %q has no absolute path", atoll.ErrInvalid, f.Path)
		}
		dirs[path.Dir(path.Clean(f.Path))] = true
	}
	made := slices.Collect(maps.Keys(dirs))
	if err := runParallel(len(made), parallelWrites, func(i int) error {
		return retryAfterClearing(ctx, sb, root, made[i], fs.FileMode.IsDir, func() error { return direct.Mkdir(ctx, made[i], 0o755) })
	}); err != nil {
		return err
	}
	return runParallel(len(files), parallelWrites, func(i int) error {
		name := path.Clean(files[i].Path)
		return retryAfterClearing(ctx, sb, root, name, fs.FileMode.IsRegular, func() error {
			return direct.WriteFile(ctx, name, bytes.NewReader(files[i].Data), fileMode(files[i]))
		})
	})
}

func fileMode(f File) fs.FileMode {
	if f.Mode == 0 {
		return 0o600
	}
	return fs.FileMode(f.Mode).Perm()
}

// readPlacedList returns the files that an earlier turn placed, sorted. The agent
// may have changed the list, so only names beneath state are removed later, and
// a list that can't be read, or is no file, is empty.
func readPlacedList(ctx context.Context, sb atoll.Sandbox, list string) ([]string, error) {
	if err := removeWrongType(ctx, sb, list, fs.FileMode.IsRegular); err != nil {
		return nil, err
	}
	r, err := atoll.OpenFile(ctx, sb, list)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxPlacedList))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	var names []string
	if json.Unmarshal(b, &names) != nil {
		return nil, nil
	}
	slices.Sort(names)
	return names, nil
}

// removeStaleFiles removes the files beneath state that are in old and not in now,
// and the directories that are empty then.
func removeStaleFiles(ctx context.Context, sb atoll.Sandbox, state string, old, now []string) error {
	for _, name := range old {
		if slices.Contains(now, name) || path.Clean(name) != name || !strings.HasPrefix(name, state+"/") {
			continue
		}
		if err := atoll.Remove(ctx, sb, name); err != nil {
			if _, serr := atoll.Stat(ctx, sb, name); serr != nil && ctx.Err() == nil {
				continue // it, or a parent of it, does not exist
			}
			return err
		}
		for dir := path.Dir(name); dir != state; dir = path.Dir(dir) {
			if left, err := atoll.ReadDir(ctx, sb, dir); err != nil || len(left) > 0 {
				break
			}
			if err := atoll.Remove(ctx, sb, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeAttachments writes the files of a prompt into the workspace and sets their
// Path. A name that exists already, or is there twice, gets a number.
func placeAttachments(ctx context.Context, sb atoll.Sandbox, dir string, prompt []Content) error {
	if !slices.ContainsFunc(prompt, isFile) {
		return nil
	}
	dir = path.Join(dir, attachmentsDir)
	info, err := atoll.Stat(ctx, sb, dir)
	if err == nil && !info.IsDir() { // a link could lead out of the workspace
		err = atoll.Remove(ctx, sb, dir)
	}
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	if err := atoll.Mkdir(ctx, sb, dir, 0o755); err != nil {
		return err
	}
	there, err := atoll.ReadDir(ctx, sb, dir)
	if err != nil {
		return err
	}
	taken := make(map[string]bool)
	for _, f := range there {
		taken[f.Name()] = true
	}
	for i := range prompt {
		c := &prompt[i]
		if !isFile(*c) {
			continue
		}
		c.Path = path.Join(dir, reserveName(safeFileName(c.Name, c.Type), taken))
		if err := atoll.WriteFile(ctx, sb, c.Path, c.Data, 0o644); err != nil {
			return fmt.Errorf("attachment %q: %w", c.Name, err)
		}
	}
	return nil
}

func isFile(c Content) bool { return c.Data != nil || c.Name != "" }

// safeFileName returns a name without directories and control characters.
func safeFileName(name, media string) string {
	name = strings.ReplaceAll(name, `\`, "/")
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	name = strings.TrimLeft(strings.TrimSpace(name), ".-")
	if name == "" {
		name = "file" + extensionOfType(media)
	}
	if ext := path.Ext(name); len(name) > maxNameLen {
		if len(ext) > maxNameLen/2 {
			ext = ""
		}
		name = strings.ToValidUTF8(name[:maxNameLen-len(ext)], "") + ext
	}
	return name
}

// extensionOfType returns the usual file extension of a media type.
func extensionOfType(media string) string {
	usual := map[string]string{
		"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
		"application/pdf": ".pdf", "text/plain": ".txt", "text/markdown": ".md", "text/csv": ".csv", "application/json": ".json",
	}
	kind, _, err := mime.ParseMediaType(media)
	if err != nil {
		return ""
	}
	return usual[kind]
}

// reserveName returns the name, or the first one with a number that is free, and
// marks it as taken.
func reserveName(name string, taken map[string]bool) string {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := 1; taken[name]; n++ {
		name = stem + "_" + strconv.Itoa(n) + ext
	}
	taken[name] = true
	return name
}
