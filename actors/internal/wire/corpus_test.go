package wire

import (
	"bufio"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bodies that long runs of the fuzzers found to take new ways through the decoders are kept in testdata/corpus, a file per fuzzer, a quoted body
// per line. After such a run they are kept by
//
//	go test ./actors/internal/wire -run TestKeepTheCorpus -corpus "$(go env GOCACHE)/fuzz/github.com/protokinesis/protokinesis/actors/internal/wire"
var keepCorpus = flag.String("corpus", "", "keep what the fuzzers have found in this folder")

// corpusBody is how long a body that is kept may be.
const corpusBody = 1 << 10

func corpusFile(fuzzer string) string {
	return filepath.Join("testdata", "corpus", fuzzer+".txt")
}

// seedCorpus adds what is kept for the fuzzer.
func seedCorpus(f *testing.F) {
	f.Helper()
	file, err := os.Open(corpusFile(f.Name()))
	require.NoError(f, err)
	defer file.Close() //nolint:errcheck // it was read
	n := 0
	for lines := bufio.NewScanner(file); lines.Scan(); n++ {
		body, err := strconv.Unquote(lines.Text())
		require.NoError(f, err)
		f.Add([]byte(body))
	}
	require.Positive(f, n)
}

// fuzzers are those whose findings are kept.
var fuzzers = []string{"FuzzGetRecordsJSON", "FuzzPutRecordsJSON", "FuzzGetRecordsCBOR", "FuzzPutRecordsCBOR"}

// What is kept is short, in order and there once, so that a change of it can be read.
func TestKeepTheCorpus(t *testing.T) {
	for _, fuzzer := range fuzzers {
		if *keepCorpus != "" {
			keepFindings(t, fuzzer)
		}
		text, err := os.ReadFile(corpusFile(fuzzer))
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		require.True(t, slices.IsSorted(lines), fuzzer)
		require.Len(t, slices.Compact(slices.Clone(lines)), len(lines), fuzzer)
		for _, line := range lines {
			body, err := strconv.Unquote(line)
			require.NoError(t, err, fuzzer)
			require.LessOrEqual(t, len(body), corpusBody, fuzzer)
		}
	}
}

// keepFindings replaces what is kept for the fuzzer by what is in the folder.
func keepFindings(t *testing.T, fuzzer string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(*keepCorpus, fuzzer, "*"))
	require.NoError(t, err)
	var lines []string
	for _, name := range found {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		_, quoted, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(string(text)), ")"), "\n[]byte(")
		body, err := strconv.Unquote(quoted)
		require.NoError(t, err, name)
		if len(body) <= corpusBody {
			lines = append(lines, strconv.QuoteToASCII(body))
		}
	}
	slices.Sort(lines)
	require.NoError(t, os.MkdirAll(filepath.Dir(corpusFile(fuzzer)), 0o750))
	require.NoError(t, os.WriteFile(corpusFile(fuzzer), []byte(strings.Join(slices.Compact(lines), "\n")+"\n"), 0o600)) //nolint:gosec // testdata
}
