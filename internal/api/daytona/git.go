package daytona

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerGit registers the routes that run git.
func (s *Server) registerGit() {
	for path, f := range map[string]func(g *gitCall) error{
		"POST clone": cloneRepository, "POST init": initRepository, "POST add": addFilesToIndex, "POST commit": commitChanges, "POST push": pushBranch, "POST pull": pullBranch,
		"POST checkout": checkOut, "POST reset": resetRepository, "POST restore": restoreFiles, "POST remotes": addRemote, "POST config": setConfig,
		"POST config/user": configureUser, "POST credentials": storeCredentials, "POST branches": createBranch, "DELETE branches": deleteBranch,
		"GET branches": listBranches, "GET status": readStatus, "GET history": readHistory, "GET remotes": listRemotes, "GET config": getConfig,
	} {
		method, name, _ := strings.Cut(path, " ")
		s.addToolbox(method, "/git/"+name, func(c *call, sb *fleet.Sandbox) error {
			g := &gitCall{call: c, sb: sb}
			q := c.r.URL.Query()
			g.in.Path, g.in.Key, g.in.Scope = q.Get("path"), q.Get("key"), q.Get("scope")
			if method != "GET" {
				if err := c.readJSON(&g.in); err != nil {
					return err
				}
			}
			return f(g)
		})
	}
}

// gitRequest has the members of all requests to git.
type gitRequest struct {
	Path            string   `json:"path"`
	URL             string   `json:"url"`
	Branch          string   `json:"branch"`
	CommitID        string   `json:"commit_id"`
	Username        string   `json:"username"`
	Password        string   `json:"password"`
	InsecureSkipTLS bool     `json:"insecure_skip_tls"`
	Depth           int      `json:"depth"`
	Bare            bool     `json:"bare"`
	InitialBranch   string   `json:"initial_branch"`
	Files           []string `json:"files"`
	Message         string   `json:"message"`
	Author          string   `json:"author"`
	Email           string   `json:"email"`
	AllowEmpty      bool     `json:"allow_empty"`
	Remote          string   `json:"remote"`
	SetUpstream     bool     `json:"set_upstream"`
	Mode            string   `json:"mode"`
	Target          string   `json:"target"`
	Staged          *bool    `json:"staged"`
	Worktree        *bool    `json:"worktree"`
	Source          string   `json:"source"`
	Name            string   `json:"name"`
	Fetch           bool     `json:"fetch"`
	Overwrite       bool     `json:"overwrite"`
	Key             string   `json:"key"`
	Value           string   `json:"value"`
	Scope           string   `json:"scope"`
	Host            string   `json:"host"`
	Protocol        string   `json:"protocol"`
}

// gitCall is a request to git.
type gitCall struct {
	*call

	sb *fleet.Sandbox
	in gitRequest
}

// credentialHelper makes git use the credentials of its environment, so that no command line has them.
const credentialHelper = `credential.helper=!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$ATOLL_GIT_USERNAME" "$ATOLL_GIT_PASSWORD"; }; f`

// run runs git in a directory and returns its output. An argument of a client that could be an option is
// refused.
func (g *gitCall) run(dir, stdin string, options []string, names ...string) (string, error) {
	for _, n := range names {
		if strings.HasPrefix(n, "-") || strings.ContainsRune(n, 0) {
			return "", invalidError("%q: must not begin with '-'", shortenText(n))
		}
	}
	args := []string{"git"}
	env := []string{"GIT_TERMINAL_PROMPT=0", "LC_ALL=C"}
	if g.in.Username != "" || g.in.Password != "" {
		args = append(args, "-c", "credential.helper=", "-c", credentialHelper)
		env = append(env, "ATOLL_GIT_USERNAME="+g.in.Username, "ATOLL_GIT_PASSWORD="+g.in.Password)
	}
	args = append(append(args, options...), names...)
	exit, err := g.sb.Exec(g.r.Context(), atoll.Cmd{Args: args, Dir: dir, Env: env, Timeout: -1, Stdin: strings.NewReader(stdin), MaxOutput: maxOutput})
	if err != nil {
		return "", err
	}
	if exit.Code != 0 {
		return "", gitError(exit.Code, string(exit.Stderr)+string(exit.Stdout))
	}
	return string(exit.Stdout), nil
}

// gitError returns the error of a command of git that has failed. The SDKs choose classes by its code; git
// itself tells the reasons apart only by its messages, which do not depend on the language here.
func gitError(status int, text string) error {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD")
	e := &Error{Status: http.StatusBadRequest, Message: text}
	if text == "" {
		e.Message = fmt.Sprintf("git: exit status %d", status)
	}
	for part, to := range map[string]*Error{
		"not a git repository":      {Status: http.StatusNotFound, Code: "GIT_REPO_NOT_FOUND"},
		"Authentication failed":     {Status: http.StatusUnauthorized, Code: "GIT_AUTH_FAILED"},
		"could not read Username":   {Status: http.StatusUnauthorized, Code: "GIT_AUTH_FAILED"},
		"already exists":            {Status: http.StatusConflict, Code: "GIT_BRANCH_EXISTS"},
		"did not match any file(s)": {Status: http.StatusNotFound, Code: "GIT_BRANCH_NOT_FOUND"},
		"[rejected]":                {Status: http.StatusConflict, Code: "GIT_PUSH_REJECTED"},
		"CONFLICT (":                {Status: http.StatusConflict, Code: "GIT_MERGE_CONFLICT"},
		"would be overwritten by":   {Status: http.StatusConflict, Code: "GIT_DIRTY_WORKTREE"},
	} {
		if strings.Contains(text, part) {
			e.Status, e.Code = to.Status, to.Code
		}
	}
	return e
}

// dir returns the directory of the repository.
func (g *gitCall) dir() (string, error) {
	if g.in.Path == "" {
		return "", invalidError("path: must not be empty")
	}
	dir := absolutePath(g.in.Path)
	if _, err := atoll.Stat(g.r.Context(), g.sb, dir); err != nil {
		return "", fileError(dir, err)
	}
	return dir, nil
}

// answer runs git in the repository and answers without a body.
func (g *gitCall) answer(status int, options []string, names ...string) error {
	dir, err := g.dir()
	if err != nil {
		return err
	}
	_, err = g.run(dir, "", options, names...)
	return g.writeEmpty(status, err)
}

// need reports members of the request that are missing.
func (g *gitCall) need(members ...string) error {
	for i := 0; i+1 < len(members); i += 2 {
		if members[i+1] == "" {
			return invalidError("%s: must not be empty", members[i])
		}
	}
	return nil
}

func cloneRepository(g *gitCall) error {
	if err := g.need("url", g.in.URL, "path", g.in.Path); err != nil {
		return err
	}
	var options []string
	if g.in.InsecureSkipTLS {
		options = append(options, "-c", "http.sslVerify=false")
	}
	options = append(options, "clone")
	if g.in.Depth > 0 {
		options = append(options, "--depth", strconv.Itoa(g.in.Depth))
	}
	if g.in.Branch != "" {
		options = append(options, "--branch="+g.in.Branch)
	}
	to := absolutePath(g.in.Path)
	if _, err := g.run("", "", append(options, "--"), g.in.URL, to); err != nil {
		return err
	}
	if g.in.CommitID != "" {
		if _, err := g.run(to, "", []string{"checkout", "--quiet"}, g.in.CommitID); err != nil {
			return err
		}
	}
	return g.writeEmpty(http.StatusOK, nil)
}

func initRepository(g *gitCall) error {
	if err := g.need("path", g.in.Path); err != nil {
		return err
	}
	options := []string{"init"}
	if g.in.Bare {
		options = append(options, "--bare")
	}
	if g.in.InitialBranch != "" {
		options = append(options, "--initial-branch="+g.in.InitialBranch)
	}
	_, err := g.run("", "", append(options, "--"), absolutePath(g.in.Path))
	return g.writeEmpty(http.StatusCreated, err)
}

func addFilesToIndex(g *gitCall) error {
	if len(g.in.Files) == 0 {
		return invalidError("files: must not be empty")
	}
	return g.answer(http.StatusOK, []string{"add", "--"}, g.in.Files...)
}

func commitChanges(g *gitCall) error {
	if err := g.need("message", g.in.Message, "author", g.in.Author, "email", g.in.Email); err != nil {
		return err
	}
	dir, err := g.dir()
	if err != nil {
		return err
	}
	options := []string{"-c", "user.name=" + g.in.Author, "-c", "user.email=" + g.in.Email, "commit", "--quiet", "--message=" + g.in.Message}
	if g.in.AllowEmpty {
		options = append(options, "--allow-empty")
	}
	if _, err := g.run(dir, "", options); err != nil {
		return err
	}
	hash, err := g.run(dir, "", []string{"rev-parse", "HEAD"})
	if err != nil {
		return err
	}
	return g.writeJSON(http.StatusOK, map[string]string{"hash": strings.TrimSpace(hash)})
}

func pushBranch(g *gitCall) error {
	options := []string{"push"}
	if g.in.SetUpstream {
		options = append(options, "--set-upstream")
	}
	return g.answer(http.StatusOK, options, g.remoteAndBranch()...)
}

func pullBranch(g *gitCall) error {
	return g.answer(http.StatusOK, []string{"pull"}, g.remoteAndBranch()...)
}

// remoteAndBranch returns the arguments of push and pull: none, a remote, or a remote and a branch.
func (g *gitCall) remoteAndBranch() []string {
	switch {
	case g.in.Branch != "" && g.in.Remote == "":
		return []string{"origin", g.in.Branch}
	case g.in.Branch != "":
		return []string{g.in.Remote, g.in.Branch}
	case g.in.Remote != "":
		return []string{g.in.Remote}
	}
	return nil
}

func checkOut(g *gitCall) error {
	if err := g.need("branch", g.in.Branch); err != nil {
		return err
	}
	return g.answer(http.StatusOK, []string{"checkout", "--quiet"}, g.in.Branch)
}

func resetRepository(g *gitCall) error {
	options := []string{"reset", "--quiet"}
	switch g.in.Mode {
	case "":
	case "soft", "mixed", "hard", "merge", "keep":
		options = append(options, "--"+g.in.Mode)
	default:
		return invalidError("mode %q: must be soft, mixed, hard, merge or keep", shortenText(g.in.Mode))
	}
	var names []string
	if g.in.Target != "" {
		names = append(names, g.in.Target)
	}
	if len(g.in.Files) == 0 {
		return g.answer(http.StatusOK, options, names...)
	}
	if g.in.Mode != "" && g.in.Mode != "mixed" {
		return invalidError("mode %q: not with files", shortenText(g.in.Mode))
	}
	if strings.HasPrefix(g.in.Target, "-") {
		return invalidError("target: must not begin with '-'")
	}
	return g.answer(http.StatusOK, append(append([]string{"reset", "--quiet"}, names...), "--"), g.in.Files...)
}

func restoreFiles(g *gitCall) error {
	if len(g.in.Files) == 0 {
		return invalidError("files: must not be empty")
	}
	options := []string{"restore"}
	if g.in.Staged != nil && *g.in.Staged {
		options = append(options, "--staged")
	}
	if g.in.Worktree != nil && *g.in.Worktree {
		options = append(options, "--worktree")
	}
	if g.in.Source != "" {
		options = append(options, "--source="+g.in.Source)
	}
	return g.answer(http.StatusOK, append(options, "--"), g.in.Files...)
}

func addRemote(g *gitCall) error {
	if err := g.need("name", g.in.Name, "url", g.in.URL); err != nil {
		return err
	}
	dir, err := g.dir()
	if err != nil {
		return err
	}
	if g.in.Overwrite {
		_, _ = g.run(dir, "", []string{"remote", "remove"}, g.in.Name) // there may be none
	}
	if _, err := g.run(dir, "", []string{"remote", "add"}, g.in.Name, g.in.URL); err != nil {
		return err
	}
	if g.in.Fetch {
		if _, err := g.run(dir, "", []string{"fetch"}, g.in.Name); err != nil {
			return err
		}
	}
	return g.writeEmpty(http.StatusCreated, nil)
}

func listRemotes(g *gitCall) error {
	dir, err := g.dir()
	if err != nil {
		return err
	}
	out, err := g.run(dir, "", []string{"remote"})
	if err != nil {
		return err
	}
	type remote struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	}
	list := []remote{}
	for _, name := range strings.Fields(out) {
		url, err := g.run(dir, "", []string{"remote", "get-url"}, name)
		if err != nil {
			return err
		}
		list = append(list, remote{name, strings.TrimSpace(url)})
	}
	return g.writeJSON(http.StatusOK, map[string]any{"remotes": list})
}

// scope returns the option and the directory of a scope of the configuration.
func (g *gitCall) scope() (option, dir string, err error) {
	switch g.in.Scope {
	case "", "global":
		return "--global", "", nil
	case "system":
		return "--system", "", nil
	case "local":
		dir, err := g.dir()
		return "--local", dir, err
	}
	return "", "", invalidError("scope %q: must be global, local or system", shortenText(g.in.Scope))
}

func setConfig(g *gitCall) error {
	option, dir, err := g.scope()
	if err != nil {
		return err
	}
	if err := g.need("key", g.in.Key); err != nil {
		return err
	}
	if strings.HasPrefix(g.in.Key, "-") {
		return invalidError("key %q: must not begin with '-'", shortenText(g.in.Key))
	}
	_, err = g.run(dir, "", []string{"config", option, g.in.Key, g.in.Value})
	return g.writeEmpty(http.StatusOK, err)
}

func getConfig(g *gitCall) error {
	option, dir, err := g.scope()
	if err != nil {
		return err
	}
	if err := g.need("key", g.in.Key); err != nil {
		return err
	}
	out, err := g.run(dir, "", []string{"config", option, "--default", "", "--get"}, g.in.Key)
	if err != nil {
		return err
	}
	reply := make(map[string]string)
	if v := strings.TrimSuffix(out, "\n"); v != "" {
		reply["value"] = v
	}
	return g.writeJSON(http.StatusOK, reply)
}

func configureUser(g *gitCall) error {
	option, dir, err := g.scope()
	if err != nil {
		return err
	}
	if err := g.need("name", g.in.Name, "email", g.in.Email); err != nil {
		return err
	}
	if _, err = g.run(dir, "", []string{"config", option, "user.name", g.in.Name}); err == nil {
		_, err = g.run(dir, "", []string{"config", option, "user.email", g.in.Email})
	}
	return g.writeEmpty(http.StatusOK, err)
}

// storeCredentials stores credentials in the home of the sandbox, as the client asks for.
func storeCredentials(g *gitCall) error {
	in := g.in
	if err := g.need("username", in.Username, "password", in.Password); err != nil {
		return err
	}
	if in.Host == "" {
		in.Host = "github.com"
	}
	if in.Protocol == "" {
		in.Protocol = "https"
	}
	if strings.ContainsAny(in.Username+in.Password+in.Host+in.Protocol, "\n\x00") {
		return invalidError("username, password, host and protocol: must be one line each")
	}
	g.in.Username, g.in.Password = "", "" // they are stored, not used
	if _, err := g.run("", "", []string{"config", "--global", "credential.helper", "store"}); err != nil {
		return err
	}
	text := fmt.Sprintf("protocol=%s\nhost=%s\nusername=%s\npassword=%s\n\n", in.Protocol, in.Host, in.Username, in.Password)
	_, err := g.run("", text, []string{"credential", "approve"})
	return g.writeEmpty(http.StatusOK, err)
}

func createBranch(g *gitCall) error {
	if err := g.need("name", g.in.Name); err != nil {
		return err
	}
	return g.answer(http.StatusCreated, []string{"branch"}, g.in.Name)
}

func deleteBranch(g *gitCall) error {
	if err := g.need("name", g.in.Name); err != nil {
		return err
	}
	return g.answer(http.StatusNoContent, []string{"branch", "--delete", "--force"}, g.in.Name)
}

func listBranches(g *gitCall) error {
	dir, err := g.dir()
	if err != nil {
		return err
	}
	out, err := g.run(dir, "", []string{"for-each-ref", "--format=%(refname:short)", "refs/heads"})
	if err != nil {
		return err
	}
	current, err := g.run(dir, "", []string{"branch", "--show-current"})
	if err != nil {
		return err
	}
	return g.writeJSON(http.StatusOK, map[string]any{"branches": append([]string{}, strings.Fields(out)...), "current": strings.TrimSpace(current)})
}

// gitFile is the status of a file.
type gitFile struct {
	Name     string `json:"name"`
	Staging  string `json:"staging"`
	Worktree string `json:"worktree"`
	Extra    string `json:"extra"`
}

// gitStatus is the status of a repository.
type gitStatus struct {
	CurrentBranch   string    `json:"currentBranch"`
	FileStatus      []gitFile `json:"fileStatus"`
	Ahead           int       `json:"ahead"`
	Behind          int       `json:"behind"`
	BranchPublished bool      `json:"branchPublished"`
	Detached        bool      `json:"detached"`
	Upstream        string    `json:"upstream,omitempty"`
}

// fileStates are the states of files by the letters of git.
var fileStates = map[byte]string{
	'.': "Unmodified", 'M': "Modified", 'T': "Modified", 'A': "Added", 'D': "Deleted", 'R': "Renamed", 'C': "Copied", 'U': "Updated but unmerged", '?': "Untracked",
}

func readStatus(g *gitCall) error {
	dir, err := g.dir()
	if err != nil {
		return err
	}
	out, err := g.run(dir, "", []string{"status", "--porcelain=v2", "--branch", "--untracked-files=all", "-z"})
	if err != nil {
		return err
	}
	return g.writeJSON(http.StatusOK, parseStatus(out))
}

// parseStatus parses the output of git status --porcelain=v2 --branch -z.
func parseStatus(out string) *gitStatus {
	s := &gitStatus{FileStatus: []gitFile{}}
	entries := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i < len(entries); i++ {
		kind, rest, _ := strings.Cut(entries[i], " ")
		switch kind {
		case "#":
			s.parseHeader(rest)
		case "?":
			s.FileStatus = append(s.FileStatus, gitFile{rest, "Untracked", "Untracked", ""})
		case "1", "2", "u":
			fields := map[string]int{"1": 8, "2": 9, "u": 10}[kind]
			parts := strings.SplitN(rest, " ", fields)
			if len(parts) < fields || len(parts[0]) < 2 {
				continue
			}
			f := gitFile{Name: parts[fields-1], Staging: fileStates[parts[0][0]], Worktree: fileStates[parts[0][1]]}
			if kind == "2" && i+1 < len(entries) {
				i++
				f.Extra = entries[i]
			}
			s.FileStatus = append(s.FileStatus, f)
		}
	}
	return s
}

// parseHeader parses a header of a status: "branch.head main".
func (s *gitStatus) parseHeader(text string) {
	name, value, _ := strings.Cut(text, " ")
	switch name {
	case "branch.head":
		if s.CurrentBranch = value; value == "(detached)" {
			s.CurrentBranch, s.Detached = "HEAD", true
		}
	case "branch.upstream":
		s.Upstream, s.BranchPublished = value, true
	case "branch.ab":
		_, _ = fmt.Sscanf(value, "+%d -%d", &s.Ahead, &s.Behind) // a form that is not known leaves 0
	}
}

func readHistory(g *gitCall) error {
	dir, err := g.dir()
	if err != nil {
		return err
	}
	out, err := g.run(dir, "", []string{"log", "--max-count=10000", "-z", "--format=%H%x1f%an%x1f%ae%x1f%aI%x1f%B"})
	if err != nil {
		return err
	}
	type commit struct {
		Hash      string `json:"hash"`
		Author    string `json:"author"`
		Email     string `json:"email"`
		Message   string `json:"message"`
		Timestamp string `json:"timestamp"`
	}
	list := []commit{}
	for entry := range bytes.SplitSeq([]byte(out), []byte{0}) {
		if f := strings.SplitN(string(entry), "\x1f", 5); len(f) == 5 {
			list = append(list, commit{f[0], f[1], f[2], strings.TrimSpace(f[4]), f[3]})
		}
	}
	return g.writeJSON(http.StatusOK, list)
}
