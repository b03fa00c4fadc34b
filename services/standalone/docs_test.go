package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryTestThatThePagesNameExists(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(page, -1)
	require.NotEmpty(t, named)
	have := make(map[string]bool)
	decl := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	for _, top := range []string{"../../pkg", "../../services", "../../tools"} {
		require.NoError(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			for _, m := range decl.FindAllSubmatch(src, -1) {
				have[string(m[1])] = true
			}
			return err
		}))
	}
	for _, m := range named {
		require.True(t, have[string(m[1])], "%s is named, but there is no such test", m[1])
	}
}

func TestEveryPathThatThePagesLinkToExists(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#]+)\)`)
	for _, page := range []string{"../../README.md", "../README.md", "../api/README.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range link.FindAllSubmatch(text, -1) {
			if strings.Contains(string(m[1]), "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1])))
			require.NoError(t, err, "%s links to %s", page, m[1])
		}
	}
}
