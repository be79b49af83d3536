// Package manual writes the pages of atoll's manual from its commands: man pages for packages, and
// Markdown for the documentation site.
package manual

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page is one page of the manual.
type Page struct {
	Name string // of the file without its extension, such as atoll-network-log
	Text string
}

// width is the width of flags in a page, that of --help.
const width = 80

// List returns the commands of a tree that --help shows, parents first.
func List(root *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{root}
	for _, sub := range root.Commands() {
		if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() && !sub.Hidden {
			list = append(list, List(sub)...)
		}
	}
	return list
}

// pageName returns the name of a command's page.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// description returns the long help of a command, or else the short one.
func description(cmd *cobra.Command) string {
	if cmd.Long != "" {
		return strings.Trim(cmd.Long, "\n")
	}
	return cmd.Short
}

// flags returns the flags of a command as --help prints them; empty if there are none.
func flags(f *pflag.FlagSet) string {
	if !f.HasAvailableFlags() {
		return ""
	}
	return strings.TrimRight(f.FlagUsagesWrapped(width), "\n")
}

// ManPages returns a page of section 1 for each command. date is of the form 2006-01-02.
func ManPages(root *cobra.Command, version, date string) []Page {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var pages []Page
	for _, cmd := range List(root) {
		pages = append(pages, Page{Name: pageName(cmd) + ".1", Text: manPage(cmd, version, date)})
	}
	return pages
}

// manPage writes a command in the macros of man(7). Help texts are laid out for a terminal already,
// so they are printed as they are.
func manPage(cmd *cobra.Command, version, date string) string {
	var b bytes.Buffer
	name := pageName(cmd)
	fmt.Fprintf(&b, ".TH %q 1 %q %q %q\n", strings.ToUpper(name), date, "atoll "+version, "atoll")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escapeMan(name), escapeMan(cmd.Short))
	section := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, escapeMan(text))
		}
	}
	section("SYNOPSIS", cmd.UseLine())
	section("DESCRIPTION", description(cmd))
	section("OPTIONS", flags(cmd.NonInheritedFlags()))
	if !cmd.HasParent() {
		section("COMMANDS", listCommands(cmd))
	} else {
		section("GLOBAL OPTIONS", flags(cmd.InheritedFlags()))
		if cmd.HasAvailableSubCommands() {
			section("COMMANDS", listCommands(cmd))
		}
	}
	section("EXAMPLES", strings.Trim(cmd.Example, "\n"))
	if cmd.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", escapeMan(pageName(cmd.Parent())))
	}
	return b.String()
}

// listCommands returns the available subcommands, one a line.
func listCommands(cmd *cobra.Command) string {
	var lines []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			lines = append(lines, fmt.Sprintf("  %-14s %s", sub.Name(), sub.Short))
		}
	}
	return strings.Join(lines, "\n")
}

// escapeMan escapes a text for man(7): backslashes, hyphens, which are minus signs in commands, and
// control characters at the beginning of a line.
func escapeMan(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

// MarkdownPages returns a page for each command. A link to a command is the name of its page with .md.
func MarkdownPages(root *cobra.Command) []Page {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var pages []Page
	for _, cmd := range List(root) {
		pages = append(pages, Page{Name: pageName(cmd), Text: markdownPage(cmd)})
	}
	return pages
}

func markdownPage(cmd *cobra.Command) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n", cmd.CommandPath(), cmd.Short)
	block := func(title, text string) {
		if text == "" {
			return
		}
		if title != "" {
			fmt.Fprintf(&b, "## %s\n\n", title)
		}
		fmt.Fprintf(&b, "```text\n%s\n```\n\n", text)
	}
	block("", cmd.UseLine())
	if cmd.Long != "" {
		block("Description", description(cmd))
	}
	block("Flags", flags(cmd.NonInheritedFlags()))
	if cmd.HasAvailableSubCommands() {
		b.WriteString("## Commands\n\n| command | |\n|---|---|\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "| [%s](%s.md) | %s |\n", sub.CommandPath(), pageName(sub), strings.ReplaceAll(sub.Short, "|", `\|`))
			}
		}
		b.WriteString("\n")
	}
	block("Examples", strings.Trim(cmd.Example, "\n"))
	if cmd.HasParent() {
		fmt.Fprintf(&b, "Part of [%s](%s.md).\n", cmd.Parent().CommandPath(), pageName(cmd.Parent()))
	}
	return b.String()
}
