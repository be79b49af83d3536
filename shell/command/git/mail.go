package git

import (
	"fmt"
	"mime"
	"path"
	"slices"
	"strings"
	"time"
)

// formatMail returns the head and the message of a commit as a mail.
func (l *logRun) formatMail(k *commit, prefix string) string {
	name, mail, at := splitIdentity(k.author)
	_, body, _ := strings.Cut(strings.TrimLeft(k.message, "\n"), "\n\n")
	text := fmt.Sprintf("From %s Mon Sep 17 00:00:00 2001\nFrom: %s <%s>\nDate: %s\nSubject: %s\n", k.id, encodeWord(name), mail, at.Format("Mon, 2 Jan 2006 15:04:05 -0700"), encodeWord(prefix+k.subject()))
	if !isASCII(k.message) || !isASCII(name) {
		text += "MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"
	}
	return text + "\n" + strings.TrimLeft(body, "\n")
}

func isASCII(s string) bool {
	for n := range len(s) {
		if s[n] >= 0x80 {
			return false
		}
	}
	return true
}

// encodeWord encodes a text of a mail's head if it is not ASCII.
func encodeWord(s string) string {
	if isASCII(s) {
		return s
	}
	return mime.QEncoding.Encode("UTF-8", s)
}

// formatPatches is git format-patch: it writes each commit as a mail.
func (c *call) formatPatches() error {
	l, err := c.newLog()
	if err != nil {
		return err
	}
	args := c.args
	if len(args) == 1 && !strings.Contains(args[0], "..") && l.most < 0 && !c.has("--root") {
		args = []string{args[0] + "..HEAD"}
	}
	if l.selection, err = c.readSelection(args, c.paths, true); err != nil {
		return err
	}
	c.flags["--no-merges"] = ""
	list, err := l.collect()
	if err != nil {
		return err
	}
	slices.Reverse(list)
	start := 1
	if text := c.flags["--start-number"]; text != "" {
		if _, err := fmt.Sscan(text, &start); err != nil {
			return newFatal("'%s': not an integer", text)
		}
	}
	dir := c.flags["-o"] + c.flags["--output-directory"]
	for n, k := range list {
		text, err := c.formatPatch(l, k, n+start, len(list)+start-1)
		if err != nil {
			return err
		}
		if c.has("--stdout") {
			if n > 0 {
				_, _ = c.p.Out().WriteString("\n") // Flush reports the error, as of all writes
			}
			_, _ = c.p.Out().WriteString(text)
			continue
		}
		name := fmt.Sprintf("%04d-%s", n+start, slugSubject(k.subject()))
		name = path.Join(dir, name[:min(len(name), 57)]+".patch")
		if dir != "" {
			if err := c.p.MkdirAll(dir, 0o777); err != nil {
				return err
			}
		}
		if err := c.p.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
		if !c.has("-q", "--quiet") {
			_, _ = fmt.Fprintln(c.p.Out(), name)
		}
	}
	return nil
}

// formatPatch returns a commit as a mail with its patch.
func (c *call) formatPatch(l *logRun, k *commit, n, total int) (string, error) {
	prefix := "[PATCH] "
	if total > 1 || c.has("--numbered") {
		width := len(fmt.Sprint(total))
		prefix = fmt.Sprintf("[PATCH %0*d/%d] ", width, n, total)
	}
	if c.has("-N", "--no-numbered") {
		prefix = "[PATCH] "
	}
	if c.has("-k", "--keep-subject") {
		prefix = ""
	}
	list, err := c.changesOf(k)
	if err != nil {
		return "", err
	}
	body := l.formatMail(k, prefix)
	if !strings.HasSuffix(body, "\n") {
		body += "\n"
	}
	var b strings.Builder
	f := &patch{r: c.repository, stat: true, summary: true, text: true, binary: true, context: 3, width: 72, to: &b}
	if err := f.printAll(list); err != nil {
		return "", err
	}
	return body + "---\n" + b.String() + "-- \n2.39.5\n\n", nil
}

// mailPatch is a parsed mail, and its text.
type mailPatch struct{ author, message, patch, text string }

// parseMails splits a mailbox.
func parseMails(text string) []mailPatch {
	var list []mailPatch
	var part strings.Builder
	end := func() {
		if part.Len() > 0 {
			m := parseMail(part.String())
			m.text = part.String()
			list = append(list, m)
		}
		part.Reset()
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "From ") && strings.HasSuffix(strings.TrimSpace(line), "2001") {
			end()
			continue
		}
		part.WriteString(line)
	}
	end()
	return list
}

// parseMail parses the head, the message and the patch of a mail.
func parseMail(text string) mailPatch {
	head, body, _ := strings.Cut(text, "\n\n")
	fields := make(map[string]string)
	last := ""
	for line := range strings.SplitSeq(head, "\n") {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			fields[last] += " " + strings.TrimSpace(line)
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		last = strings.ToLower(key)
		fields[last] = strings.TrimSpace(value)
	}
	decoder := mime.WordDecoder{}
	decode := func(s string) string {
		if plain, err := decoder.DecodeHeader(s); err == nil {
			return plain
		}
		return s
	}
	subject := decode(fields["subject"])
	for strings.HasPrefix(subject, "[") {
		_, rest, ok := strings.Cut(subject, "]")
		if !ok {
			break
		}
		subject = strings.TrimSpace(rest)
	}
	message, patch := body, ""
	if strings.HasPrefix(body, "---\n") {
		message, patch = "", body
	} else if at := strings.Index(body, "\n---\n"); at >= 0 {
		message, patch = body[:at+1], body[at+1:]
	} else if at := strings.Index(body, "diff --git "); at >= 0 {
		message, patch = body[:at], body[at:]
	}
	name, address, _ := strings.Cut(decode(fields["from"]), " <")
	at, err := time.Parse("Mon, 2 Jan 2006 15:04:05 -0700", fields["date"])
	if err != nil {
		at = time.Unix(0, 0).UTC()
	}
	return mailPatch{author: formatIdentity(strings.Trim(name, `"`), strings.TrimSuffix(address, ">"), at), message: cleanMessage(subject + "\n\n" + message), patch: patch}
}
