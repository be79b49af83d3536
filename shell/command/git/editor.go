package git

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// findEditor returns the shell command that starts the user's editor, "" if none is set.
func (c *call) findEditor() string {
	for _, command := range []string{c.p.Getenv("GIT_EDITOR"), c.editorConfig().get("core.editor"), c.p.Getenv("VISUAL"), c.p.Getenv("EDITOR")} {
		if command != "" {
			return command
		}
	}
	return ""
}

// editorConfig returns the configuration that may name an editor. That of a bare repository is left out: a clone can contain
// the files of one, and the author of the clone would choose what is run.
func (c *call) editorConfig() config {
	if c.root == "" {
		conf, _ := readConfig(c.p, "", "") // what can't be read names no editor
		return conf
	}
	return c.conf
}

// runShell runs a command of the user by the shell, in the root of the working tree, and returns its exit code.
// Arguments are appended to the command.
func (c *call) runShell(command string, args ...string) (int, error) {
	_ = c.p.Out().Flush() // the next write reports the error
	words := []string{"sh", "-c", command}
	if len(args) > 0 {
		words = append([]string{"sh", "-c", command + ` "$@"`, command}, args...)
	}
	s, err := c.p.Command(words)
	if err != nil {
		return 0, newError("cannot run %s: %s", command, program.Reason(err))
	}
	if s.Dir = c.root; s.Dir == "" {
		s.Dir = c.dir
	}
	status, err := c.p.Call(s)
	c.packedRefs, c.attributes = nil, nil // the command may have changed them
	if err != nil {
		return 0, newError("cannot run %s: %s", command, program.Reason(err))
	}
	return status.Code, nil
}

// runEditor starts an editor for a file of the repository, and returns the file's text afterwards.
func (c *call) runEditor(editor, name string) (string, error) {
	if editor != ":" {
		code, err := c.runShell(editor, c.dir+"/"+name)
		if err != nil {
			return "", err
		}
		if code != 0 {
			return "", newError("There was a problem with the editor '%s'.", editor)
		}
	}
	b, err := c.p.ReadFile(c.dir + "/" + name)
	if err != nil {
		return "", newError("could not read '%s': %s", name, program.Reason(err))
	}
	return string(b), nil
}

// editMessage starts the user's editor for a message, which is followed by a comment, and returns the cleaned message.
func (c *call) editMessage(name, text, comment string) (string, error) {
	editor := c.findEditor()
	if editor == "" {
		return "", newError("Terminal is dumb, but EDITOR unset\nPlease supply the message using either -m or -F option.")
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err := c.writeGitFile(name, text+comment); err != nil {
		return "", err
	}
	text, err := c.runEditor(editor, name)
	if err != nil {
		return "", &failure{1, err.Error() + "\nPlease supply the message using either -m or -F option."}
	}
	return cleanMessage(dropComments(text)), nil
}

// commentCommit returns the comment below a message that is edited: how to edit, and the state of the working tree.
func (c *call) commentCommit(s *state, author string, dated bool) string {
	var b strings.Builder
	b.WriteString("\n# Please enter the commit message for your changes. Lines starting\n# with '#' will be ignored, and an empty message aborts the commit.\n#\n")
	committer, err := c.buildIdentity("COMMITTER")
	other := err == nil && cutBefore(author, "> ") != cutBefore(committer, "> ")
	if other {
		fmt.Fprintf(&b, "# Author:    %s>\n", cutBefore(author, "> "))
	}
	if dated {
		fmt.Fprintf(&b, "# Date:      %s\n", c.formatDate(author, ""))
	}
	if other || dated {
		b.WriteString("#\n")
	}
	var status strings.Builder
	n := *c
	n.text = bufio.NewWriter(&status)
	n.printLong(s, "Initial commit", func(*state, *call) string { return "" })
	_ = n.text.Flush() // a builder accepts everything
	for line := range strings.Lines(status.String()) {
		switch {
		case strings.HasPrefix(line, "  ("): // a hint
			continue
		case line == "\n":
			b.WriteString("#\n")
		case line[0] == '\t':
			b.WriteString("#" + line)
		default:
			b.WriteString("# " + line)
		}
	}
	return b.String()
}

// output returns where the state of the working tree is printed.
func (c *call) output() *bufio.Writer {
	if c.text != nil {
		return c.text
	}
	return c.p.Out()
}

// commentLines returns a text with # before each line.
func commentLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line == "\n" {
			b.WriteString("#\n")
		} else {
			b.WriteString("# " + line)
		}
	}
	return b.String()
}
