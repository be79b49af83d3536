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
	cover := c.has("--cover-letter") && len(list) > 0
	version := c.flags["-v"] + c.flags["--reroll-count"]
	if version != "" {
		version = "v" + version + "-"
	}
	suffix := ".patch"
	if c.has("--suffix") {
		suffix = c.flags["--suffix"]
	}
	dir := c.flags["-o"] + c.flags["--output-directory"]
	write := func(n int, slug, text string) error {
		if c.has("--stdout") {
			if n > start || cover && n == start {
				_, _ = c.p.Out().WriteString("\n") // Flush reports the error, as of all writes
			}
			_, _ = c.p.Out().WriteString(text)
			return nil
		}
		name := fmt.Sprintf("%s%04d-%s", version, n, slug)
		name = path.Join(dir, name[:min(len(name), 63-len(suffix))]+suffix)
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
		return nil
	}
	if cover {
		text, err := c.formatCover(list, len(list)+start-1)
		if err != nil {
			return err
		}
		if err := write(start-1, "cover-letter", text); err != nil {
			return err
		}
	}
	for n, k := range list {
		text, err := c.formatPatch(l, k, n+start, len(list)+start-1)
		if err != nil {
			return err
		}
		if err := write(n+start, slugSubject(k.subject()), text); err != nil {
			return err
		}
	}
	return nil
}

// mailPrefix returns what is before the subject of a mail: [PATCH n/total].
func (c *call) mailPrefix(n, total int) string {
	prefix := orDefault(c.conf.get("format.subjectprefix"), "PATCH")
	if c.has("--rfc") {
		prefix = "RFC PATCH"
	}
	if c.has("--subject-prefix") {
		prefix = c.flags["--subject-prefix"]
	}
	if version := c.flags["-v"] + c.flags["--reroll-count"]; version != "" {
		prefix += " v" + version
	}
	if (total > 1 || c.has("--numbered", "--cover-letter")) && !c.has("-N", "--no-numbered") {
		prefix = strings.TrimLeft(fmt.Sprintf("%s %0*d/%d", prefix, len(fmt.Sprint(total)), n, total), " ")
	}
	if prefix == "" {
		return ""
	}
	return "[" + prefix + "] "
}

// mailSignature returns the end of a mail.
func (c *call) mailSignature() string {
	text := "2.39.5"
	if c.has("--signature") {
		text = c.flags["--signature"]
	}
	if c.has("--no-signature") || text == "" {
		return ""
	}
	return "-- \n" + text + "\n\n"
}

// formatCover returns the mail before the patches: the list of the commits and the statistics of them all.
func (c *call) formatCover(list []*commit, total int) (string, error) {
	who, err := c.buildIdentity("COMMITTER")
	if err != nil {
		return "", err
	}
	name, mail, at := splitIdentity(who)
	last := list[len(list)-1]
	var b strings.Builder
	fmt.Fprintf(&b, "From %s Mon Sep 17 00:00:00 2001\nFrom: %s <%s>\nDate: %s\nSubject: %s*** SUBJECT HERE ***\n\n*** BLURB HERE ***\n\n", last.id, encodeWord(name), mail, at.Format("Mon, 2 Jan 2006 15:04:05 -0700"), c.mailPrefix(0, total))
	groups := make(map[string][]string)
	for _, k := range list {
		c.p.Tick(1)
		c.p.Alloc(int64(len(k.message)) + 64)
		author, _, _ := splitIdentity(k.author)
		groups[author] = append(groups[author], k.subject())
	}
	for _, author := range sortedKeys(groups) {
		fmt.Fprintf(&b, "%s (%d):\n", author, len(groups[author]))
		for _, subject := range groups[author] {
			fmt.Fprintf(&b, "  %s\n", subject)
		}
		b.WriteString("\n")
	}
	if len(list[0].parents) > 0 {
		changes, err := c.compareRevisions(list[0].parents[0], last.id)
		if err != nil {
			return "", err
		}
		f := &patch{r: c.repository, stat: true, summary: true, context: 3, width: 72, to: &b}
		if err := f.printAll(changes); err != nil {
			return "", err
		}
		b.WriteString("\n")
	}
	return b.String() + c.mailSignature(), nil
}

// formatPatch returns a commit as a mail with its patch.
func (c *call) formatPatch(l *logRun, k *commit, n, total int) (string, error) {
	prefix := c.mailPrefix(n, total)
	if c.has("-k", "--keep-subject") {
		prefix = ""
	}
	list, err := c.changesOf(k)
	if err != nil {
		return "", err
	}
	if c.has("-s", "--signoff") {
		who, err := c.buildIdentity("COMMITTER")
		if err != nil {
			return "", err
		}
		signed := *k
		signed.message = addTrailer(k.message, "Signed-off-by: "+cutBefore(who, "> ")+">")
		k = &signed
	}
	body := l.formatMail(k, prefix)
	if !strings.HasSuffix(body, "\n") {
		body += "\n"
	}
	var b strings.Builder
	f := &patch{r: c.repository, stat: !c.has("--no-stat", "-p"), summary: !c.has("--no-stat", "-p"), text: true, binary: true, context: 3, width: 72, to: &b}
	if err := f.printAll(list); err != nil {
		return "", err
	}
	return body + "---\n" + b.String() + c.mailSignature(), nil
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
