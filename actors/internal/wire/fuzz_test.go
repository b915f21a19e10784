package wire

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bodiesOf are the answers kept in testdata, by file name.
func bodiesOf(tb testing.TB, pattern string) map[string][]byte {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "bodies", pattern))
	require.NoError(tb, err)
	require.NotEmpty(tb, names)
	all := make(map[string][]byte)
	for _, name := range names {
		body, err := os.ReadFile(name)
		require.NoError(tb, err)
		all[filepath.Base(name)] = body
	}
	return all
}

// What services answer, but for the last page of a shard and what has escapes, is decoded here: else all of this were for nothing.
func TestTheAnswersOfServicesAreDecodedHere(t *testing.T) {
	for name, body := range bodiesOf(t, "*") {
		if strings.HasPrefix(name, "kinesalite-GetRecords-1.cbor") || strings.Contains(name, "GetRecords-3") {
			continue // cut off; the last of its shard
		}
		if strings.HasSuffix(name, "GetRecords-1.json") {
			body = []byte(strings.NewReplacer(`\"`, "'", `\\`, "|", `\n`, " ", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(body)))
		}
		out := getRecords.out()
		if strings.Contains(name, "PutRecords") {
			out = putRecords.out()
		}
		require.True(t, decode(body, strings.HasSuffix(name, ".cbor"), out), name)
	}
}

func seed(f *testing.F, pattern string, more ...map[string]string) {
	f.Helper()
	for _, body := range bodiesOf(f, pattern) {
		if len(body) > 8<<10 { // long ones slow the fuzzer down and are of the same sort all over
			continue
		}
		f.Add(body)
	}
	for _, bodies := range more {
		for _, body := range bodies {
			if len(body) < 2<<10 {
				f.Add([]byte(body))
			}
		}
	}
}

func FuzzGetRecordsJSON(f *testing.F) {
	seedCorpus(f)
	seed(f, "*-GetRecords-*.json", usualPages, unusualPages)
	f.Fuzz(func(t *testing.T, body []byte) { getRecords.requireAsTheirs(t, http.StatusOK, body) })
}

func FuzzPutRecordsJSON(f *testing.F) {
	seedCorpus(f)
	seed(f, "*-PutRecords-*.json", usualReceipts, unusualReceipts)
	f.Fuzz(func(t *testing.T, body []byte) { putRecords.requireAsTheirs(t, http.StatusOK, body) })
}
