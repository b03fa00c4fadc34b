package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const pageHead = `<!-- go run ./tools/myosin docs > tools/myosin/README.md: a test compares the two. -->
# myosin

%s

Flags of several commands come first, then each command with its own.
` + "`myosin completion bash|zsh|fish|powershell`" + ` prints a completion script for the shell.

## Flags of every command

%s
## Flags of commands that call the HTTP API

%s
## Exit codes

~~~
%s
~~~
`

// docsCommand prints the reference: this tree as a page, whatever the environment.
func docsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "docs", Short: "print the reference of all commands as Markdown", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeDocs(cmd.OutOrStdout())
		},
	}
}

func writeDocs(w io.Writer) error {
	a := &app{host: Host{Env: func(string) (string, bool) { return "", false }}}
	root := a.root()
	long, _, _ := strings.Cut(root.Long, "\n\nExit codes:")
	api := &cobra.Command{}
	a.apiFlags(api)
	var b strings.Builder
	fmt.Fprintf(&b, pageHead, long, flagTable(root.PersistentFlags()), flagTable(api.PersistentFlags()), exitHelp)
	for _, c := range root.Commands() {
		describe(&b, c, api)
	}
	_, err := io.WriteString(w, b.String())
	return printed(err)
}

// describe writes a command, or the commands of a group.
func describe(b *strings.Builder, c, api *cobra.Command) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	level := strings.Repeat("#", 1+strings.Count(c.CommandPath(), " "))
	fmt.Fprintf(b, "\n%s %s\n\n", level, c.CommandPath())
	text := c.Long
	if text == "" {
		text = strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
	}
	b.WriteString(escaped(text) + "\n")
	if c.HasSubCommands() {
		for _, sub := range c.Commands() {
			describe(b, sub, api)
		}
		return
	}
	fmt.Fprintf(b, "\n~~~\n%s\n", strings.TrimSuffix(c.UseLine(), " [flags]"))
	if c.Example != "" {
		b.WriteString("\n" + c.Example + "\n")
	}
	b.WriteString("~~~\n")
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		shared := api.PersistentFlags().Lookup(f.Name)
		if f.Name != "help" && c.InheritedFlags().Lookup(f.Name) == nil && (shared == nil || shared.Usage != f.Usage) {
			own.AddFlag(f)
		}
	})
	if own.HasFlags() {
		b.WriteString("\n" + flagTable(own))
	}
}

func flagTable(set *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("| flag | |\n|---|---|\n")
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		kind, text := pflag.UnquoteUsage(f)
		if kind != "" {
			name += " " + kind
		}
		if d := f.DefValue; d != "" && d != "0" && d != "false" && d != "[]" && !strings.Contains(text, "default") {
			text += "; default " + d
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, escaped(text))
	})
	return b.String()
}

// escaped is a text whose marks Markdown leaves alone.
func escaped(s string) string {
	return strings.NewReplacer("|", "\\|", "*", "\\*", "<", "\\<", "_", "\\_").Replace(s)
}
