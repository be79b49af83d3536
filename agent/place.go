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
	attachments = ".attachments" // directory of the workspace
	toolName    = "atoll-tool"
	placedName  = ".placed" // in Site.State: what the last turn has placed there
	placedMost  = 1 << 20   // bytes of it
	atOnce      = 8         // files that are written at once
	longestName = 120       // bytes of an attachment's
	usualPath   = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// prepare makes all that a turn needs inside, and returns the command that
// runs the agent.
func (s *Session) prepare(ctx context.Context) (atoll.Cmd, Site, error) {
	j := &s.job
	in, err := s.reach(ctx)
	if err != nil {
		return atoll.Cmd{}, Site{}, err
	}
	def(&j.Dir, in.dir)
	if err := apart(j.Dir, j.State); err != nil {
		return atoll.Cmd{}, Site{}, fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	site := Site{Dir: path.Clean(j.Dir), State: path.Join(j.State, j.Agent.Name()), Root: in.root}
	dirs, env := slices.Clone(j.Path), slices.Clone(j.Turn.Env)
	if in.model != "" {
		site.Model = "http://" + in.model
	}
	if in.tool != "" {
		site.Tools = []string{in.tool, "mcp", in.tools}
		dirs, env = append(dirs, path.Dir(in.tool)), append(env, "ATOLL_TOOLS="+in.tools)
	}
	if err := attach(ctx, j.Sandbox, site.Dir, j.Turn.Prompt); err != nil {
		return atoll.Cmd{}, Site{}, err
	}
	plan, err := j.Agent.Plan(&j.Turn, site)
	if err != nil {
		return atoll.Cmd{}, Site{}, err
	}
	if err := place(ctx, j.Sandbox, site.State, plan.Files); err != nil {
		return atoll.Cmd{}, Site{}, err
	}
	if len(dirs) > 0 {
		env = append(env, "PATH="+strings.Join(append(dirs, in.path), ":"))
	}
	s.in.add(plan.Stdin)
	def(&plan.Dir, site.Dir)
	return atoll.Cmd{Args: plan.Args, Dir: plan.Dir, Env: append(env, plan.Env...), Timeout: -1}, site, nil
}

// surroundings are what a turn finds inside, or has put there.
type surroundings struct {
	root        bool
	dir, path   string // of the sandbox's commands
	model       string // addresses; empty: nobody is there
	tools, tool string // an address, and the program that reaches it
}

// reach makes the ways out, and looks around, all at once.
func (s *Session) reach(ctx context.Context) (surroundings, error) {
	j := &s.job
	var in surroundings
	tasks := []func() error{func() (err error) {
		in.root, in.dir, in.path, err = lookAround(ctx, j.Sandbox)
		return err
	}}
	if j.Model != nil && s.features.API != "" {
		tasks = append(tasks, func() (err error) {
			in.model, err = s.serving.model(ctx, j.Sandbox, j.Model)
			return err
		})
	}
	if j.Tools != nil {
		tasks = append(tasks, func() (err error) {
			in.tools, err = s.serving.tools(ctx, j.Sandbox, j.Tools)
			return err
		}, func() (err error) {
			in.tool, err = placeTool(ctx, j.Sandbox, j.State, j.ToolProgram)
			return err
		})
	}
	err := together(len(tasks), len(tasks), func(i int) error { return tasks[i]() })
	return in, err
}

// together calls f for 0 to n-1, so many at once, and joins the errors.
func together(n, most int, f func(int) error) error {
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

// lookAround asks who commands run as, in which directory, and where they look for
// programs. A sandbox without a shell says only who.
func lookAround(ctx context.Context, sb atoll.Sandbox) (root bool, dir, programs string, err error) {
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"sh", "-c", `id -u; pwd; printf '%s\n' "$PATH"`}})
	if err == nil && exit.Code != 0 {
		exit, err = sb.Exec(ctx, atoll.Cmd{Args: []string{"id", "-u"}})
	}
	if err != nil {
		return false, "", "", err
	}
	said := append(strings.Split(strings.TrimSpace(string(exit.Stdout)), "\n"), "", "", "")
	uid, err := strconv.Atoi(said[0])
	root, dir, programs = err == nil && uid == 0, said[1], said[2]
	def(&dir, "/")
	def(&programs, usualPath)
	return root, dir, programs, nil
}

// placeTool puts the program that reaches the tools into the agents' directory,
// in one that is named after its content. It is written for each turn, and is
// alone there: an earlier one may have left anything, and programs are looked for
// in it.
func placeTool(ctx context.Context, sb atoll.Sandbox, state, program string) (string, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("the program for tools: %w", err)
	}
	sum := sha256.Sum256(data)
	bin := path.Join(state, "bin")
	dir := path.Join(bin, hex.EncodeToString(sum[:8]))
	name := path.Join(dir, toolName)
	for _, d := range []string{bin, dir} {
		if err := tidy(ctx, sb, d, fs.FileMode.IsDir); err != nil {
			return "", err
		}
	}
	there, err := atoll.ReadDir(ctx, sb, dir)
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return "", err
	}
	for _, f := range there {
		if f.Name() == toolName && f.Mode().IsRegular() {
			continue // it is replaced in one step: another turn may be using it
		}
		if err := atoll.Remove(ctx, sb, path.Join(dir, f.Name())); err != nil && !errors.Is(err, atoll.ErrNotFound) {
			return "", err
		}
	}
	return name, atoll.WriteFile(ctx, sb, name, data, 0o755)
}

// tidy removes what an earlier turn may have left in place of what is meant to
// be there.
func tidy(ctx context.Context, sb atoll.Sandbox, name string, meant func(fs.FileMode) bool) error {
	info, err := atoll.Stat(ctx, sb, name)
	if err == nil && !meant(info.Mode()) {
		err = atoll.Remove(ctx, sb, name)
	}
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}

// makeWay calls f, which makes or writes name. If it fails since a name beneath
// root is not what it has to be, that is removed, and f is called again.
func makeWay(ctx context.Context, sb atoll.Sandbox, root, name string, meant func(fs.FileMode) bool, f func() error) error {
	err := f()
	for at := name; err != nil && strings.HasPrefix(at, root+"/"); at = path.Dir(at) {
		if info, serr := atoll.Stat(ctx, sb, at); serr == nil && !meant(info.Mode()) {
			if rerr := atoll.Remove(ctx, sb, at); rerr != nil {
				return errors.Join(err, rerr)
			}
			return f()
		}
		meant = fs.FileMode.IsDir // all above
	}
	return err
}

// place writes the files of a plan, and removes those that an earlier plan had
// placed and this one has not: an agent would find them.
func place(ctx context.Context, sb atoll.Sandbox, state string, files []File) error {
	if err := makeWay(ctx, sb, path.Dir(state), state, fs.FileMode.IsDir, func() error { return atoll.Mkdir(ctx, sb, state, 0o700) }); err != nil {
		return err
	}
	list := path.Join(state, placedName)
	old, err := placed(ctx, sb, list)
	if err != nil {
		return err
	}
	now := make([]string, 0, len(files))
	for _, f := range files {
		now = append(now, path.Clean(f.Path))
	}
	slices.Sort(now)
	if !slices.Equal(old, now) {
		// Told first: what is written is known, whatever happens next.
		both, err := json.Marshal(slices.Compact(slices.Sorted(slices.Values(slices.Concat(old, now)))))
		if err != nil {
			return err
		}
		if err := atoll.WriteFile(ctx, sb, list, both, 0o600); err != nil {
			return err
		}
	}
	if err := write(ctx, sb, path.Dir(state), files); err != nil || slices.Equal(old, now) {
		return err
	}
	if err := sweep(ctx, sb, state, old, now); err != nil {
		return err
	}
	b, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return atoll.WriteFile(ctx, sb, list, b, 0o600)
}

// write writes files, each directory made once. What is in their way beneath
// root is removed.
func write(ctx context.Context, sb atoll.Sandbox, root string, files []File) error {
	direct, fast := atoll.As[atoll.DirFS](sb)
	if !fast {
		return together(len(files), 1, func(i int) error {
			return makeWay(ctx, sb, root, path.Clean(files[i].Path), fs.FileMode.IsRegular, func() error {
				return atoll.WriteFile(ctx, sb, files[i].Path, files[i].Data, mode(files[i]))
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
	if err := together(len(made), atOnce, func(i int) error {
		return makeWay(ctx, sb, root, made[i], fs.FileMode.IsDir, func() error { return direct.Mkdir(ctx, made[i], 0o755) })
	}); err != nil {
		return err
	}
	return together(len(files), atOnce, func(i int) error {
		name := path.Clean(files[i].Path)
		return makeWay(ctx, sb, root, name, fs.FileMode.IsRegular, func() error {
			return direct.WriteFile(ctx, name, bytes.NewReader(files[i].Data), mode(files[i]))
		})
	})
}

func mode(f File) fs.FileMode {
	if f.Mode == 0 {
		return 0o600
	}
	return fs.FileMode(f.Mode).Perm()
}

// placed reads which files an earlier turn has placed, in order. What an agent
// has made of the list is not believed: only names beneath state are kept, and
// a list that can't be read, or is no file, is empty.
func placed(ctx context.Context, sb atoll.Sandbox, list string) ([]string, error) {
	if err := tidy(ctx, sb, list, fs.FileMode.IsRegular); err != nil {
		return nil, err
	}
	r, err := atoll.OpenFile(ctx, sb, list)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, placedMost))
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

// sweep removes the files beneath state that were placed and are not any more,
// and the directories that are empty then.
func sweep(ctx context.Context, sb atoll.Sandbox, state string, old, now []string) error {
	for _, name := range old {
		if slices.Contains(now, name) || path.Clean(name) != name || !strings.HasPrefix(name, state+"/") {
			continue
		}
		if err := atoll.Remove(ctx, sb, name); err != nil {
			if _, serr := atoll.Stat(ctx, sb, name); serr != nil && ctx.Err() == nil {
				continue // it is not there, nor is the way to it
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

// attach writes the files of a prompt into the workspace, and sets their Path.
// Names that are there already, or come twice, get a number.
func attach(ctx context.Context, sb atoll.Sandbox, dir string, prompt []Content) error {
	if !slices.ContainsFunc(prompt, isFile) {
		return nil
	}
	dir = path.Join(dir, attachments)
	info, err := atoll.Stat(ctx, sb, dir)
	if err == nil && !info.IsDir() { // a link, to where they are not meant for
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
		c.Path = path.Join(dir, free(fileName(c.Name, c.Type), taken))
		if err := atoll.WriteFile(ctx, sb, c.Path, c.Data, 0o644); err != nil {
			return fmt.Errorf("attachment %q: %w", c.Name, err)
		}
	}
	return nil
}

func isFile(c Content) bool { return c.Data != nil || c.Name != "" }

// fileName makes a name that is only a name.
func fileName(name, media string) string {
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
		name = "file" + extension(media)
	}
	if ext := path.Ext(name); len(name) > longestName {
		if len(ext) > longestName/2 {
			ext = ""
		}
		name = strings.ToValidUTF8(name[:longestName-len(ext)], "") + ext
	}
	return name
}

// extension returns the usual one of a media type.
func extension(media string) string {
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

// free returns the name, or the first one with a number that nobody has, and
// takes it.
func free(name string, taken map[string]bool) string {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := 1; taken[name]; n++ {
		name = stem + "_" + strconv.Itoa(n) + ext
	}
	taken[name] = true
	return name
}
