package test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateReports = flag.Bool("update", false, "write the table of reports in doc.go anew")

var (
	reportID  = regexp.MustCompile(`\b[A-Z]\d{1,2}\b`)
	reportRow = regexp.MustCompile(`^//\t([A-Z]\d{1,2})  (.*)$`)
)

// TestEveryReportHasATest holds the table in doc.go against the comments of the tests: each report has a test, or says why not, and each
// test that names a report is listed with it.
func TestEveryReportHasATest(t *testing.T) {
	t.Parallel()
	tests := reportTests(t)
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var out bytes.Buffer
	var rows []string
	for line := range strings.Lines(string(text)) {
		row := reportRow.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if row == nil {
			if !strings.HasPrefix(line, "//\t    ") {
				out.WriteString(line)
			}
			continue
		}
		id := row[1]
		rows = append(rows, id)
		out.WriteString(line)
		if strings.Contains(row[2], "; not tested: ") {
			require.Empty(t, tests[id], "%s has a test after all", id)
			continue
		}
		require.NotEmpty(t, tests[id], "%s has no test", id)
		for _, folder := range slices.Sorted(maps.Keys(tests[id])) {
			fmt.Fprintf(&out, "//\t    %s: %s\n", folder, strings.Join(slices.Sorted(maps.Keys(tests[id][folder])), " "))
		}
	}
	for id := range tests {
		require.Contains(t, rows, id, "a report that the table lacks; its tests: %v", tests[id])
	}
	if *updateReports {
		require.NoError(t, os.WriteFile("doc.go", out.Bytes(), 0o600))
		return
	}
	require.Equal(t, out.String(), string(text), "run this test with -update")
}

// reportTests are the tests by the reports their comments name, and by folder.
func reportTests(t *testing.T) map[string]map[string]map[string]bool {
	t.Helper()
	found := make(map[string]map[string]map[string]bool)
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && entry.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(file, "_test.go") || entry.Name() == "reports_test.go" {
			return err
		}
		for name, ids := range testsOf(t, file) {
			folder := path.Clean(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../"))
			if folder == "." {
				folder = "test"
			}
			for _, id := range ids {
				if found[id] == nil {
					found[id] = make(map[string]map[string]bool)
				}
				if found[id][folder] == nil {
					found[id][folder] = make(map[string]bool)
				}
				found[id][folder][name] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

// testsOf are the tests of a file and the reports that the comments above and within each of them name.
func testsOf(t *testing.T, file string) map[string][]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	require.NoError(t, err)
	tests := make(map[string][]string)
	for _, declared := range parsed.Decls {
		f, ok := declared.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		begin := f.Pos()
		if f.Doc != nil {
			begin = f.Doc.Pos()
		}
		for _, comment := range parsed.Comments {
			if begin <= comment.Pos() && comment.End() <= f.End() {
				tests[f.Name.Name] = append(tests[f.Name.Name], reportID.FindAllString(comment.Text(), -1)...)
			}
		}
	}
	return tests
}
