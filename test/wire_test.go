package test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/actors"
)

// wireVariable is the environment variable that says how the nodes of the tests speak to the service: sdk (by the SDK's own protocol), json or cbor.
// Default: json, the library's. Processes that tests start have it too.
const wireVariable = "PROTOKINESIS_TEST_WIRE"

// wireName is how a node speaks to a service, as the command line calls it.
func wireName(service string) string {
	switch chosen := os.Getenv(wireVariable); {
	case chosen == "":
		return "json"
	case chosen == "cbor" && service == kinesalite: // it stores data that came in CBOR so that nobody can read it
		return "json"
	case chosen == "sdk" || chosen == "json" || chosen == "cbor":
		return chosen
	default:
		panic(fmt.Sprintf("%s is %q: sdk, json or cbor", wireVariable, chosen))
	}
}

// wire is how a node speaks to a service.
func wire(service string) protokinesis.Option {
	switch wireName(service) {
	case "sdk":
		return protokinesis.WithSDKProtocol()
	case "cbor":
		return protokinesis.WithWireFormat(protokinesis.CBOR)
	}
	return func(*actors.Config) {}
}

// Nodes and services speak as wireVariable says, from the first call to the last: else a run in another format would show nothing.
func TestTheSuiteRunsInTheFormat(t *testing.T) {
	t.Parallel()
	for service, open := range services {
		t.Run(service, func(t *testing.T) {
			s := open(t)
			var spoken sync.Map // what was asked, and answered, in which format
			s.through(func(op string, r *http.Request, res *http.Response) (*http.Response, error) {
				if op == "GetRecords" || op == "PutRecords" {
					spoken.Store(fmt.Sprintf("%s asked in %s", op, formatOf(r.Header)), true)
					spoken.Store(fmt.Sprintf("%s answered in %s", op, formatOf(res.Header)), true)
				}
				return res, nil
			})
			n, stream, got, records := s.connect(t), s.newStream(t, 2), newRecorder(), load{keys: 4, each: 5}
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.StartAt(protokinesis.TrimHorizon())), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			records.publish(t, n, stream)
			got.wait(t, records.count())
			n.shutdown(t)

			chosen := os.Getenv(wireVariable)
			want := format(inJSON)
			if chosen == "cbor" && service != kinesalite {
				want = inCBOR
			}
			all := map[string]bool{}
			spoken.Range(func(what, _ any) bool { all[fmt.Sprint(what)] = true; return true })
			for _, op := range []string{"GetRecords", "PutRecords"} {
				for _, side := range []string{"asked", "answered"} {
					what := fmt.Sprintf("%s %s in %s", op, side, want)
					assert.True(t, all[what], "%s: not seen, but %v", what, all)
					delete(all, what)
				}
			}
			assert.Empty(t, all)
			var c actors.Config // JSON looks alike, whoever writes it
			wire(service)(&c)
			assert.Equal(t, chosen == "sdk", c.SDKProtocol)
		})
	}
}

// Records travel in what was chosen, and come back as they were; where CBOR is not taken, in JSON, and the log says so.
func TestRecordsTravelInTheFormatThatWasChosen(t *testing.T) {
	t.Parallel()
	refuse := func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Content-Type") != inCBOR {
			return false
		}
		rw.WriteHeader(http.StatusUnsupportedMediaType)
		return true
	}
	for name, c := range map[string]struct {
		options []protokinesis.Option
		refuse  func(http.ResponseWriter, *http.Request) bool
		last    string // format of the last calls
		told    int    // lines of the log
	}{
		"default":       {last: inJSON},
		"JSON":          {options: []protokinesis.Option{protokinesis.WithWireFormat(protokinesis.JSON)}, last: inJSON},
		"SDK":           {options: []protokinesis.Option{protokinesis.WithSDKProtocol()}, last: inJSON},
		"CBOR":          {options: []protokinesis.Option{protokinesis.WithWireFormat(protokinesis.CBOR)}, last: inCBOR},
		"CBOR, refused": {options: []protokinesis.Option{protokinesis.WithWireFormat(protokinesis.CBOR)}, refuse: refuse, last: inJSON, told: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := embeddedService(t)
			var formats sync.Map // of the last call by operation
			front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if c.refuse != nil && c.refuse(rw, r) {
					return
				}
				formats.Store(strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "Kinesis_20131202."), r.Header.Get("Content-Type"))
				s.server.ServeHTTP(rw, r)
			}))
			t.Cleanup(front.Close)
			s.config.BaseEndpoint = &front.URL
			log := &lines{}
			whatever := func(c *actors.Config) { c.SDKProtocol, c.WireFormat = false, protokinesis.JSON } // the environment says
			n := s.configured(t, append([]protokinesis.Option{
				whatever, protokinesis.WithLogger(slog.New(slog.NewTextHandler(log, nil))),
			}, c.options...)...)
			require.NoError(t, n.Connect(t.Context()))
			stream, got, records := s.newStream(t, 1), newRecorder(), load{keys: 3, each: 20}
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.StartAt(protokinesis.TrimHorizon())), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			records.publish(t, n, stream)
			got.wait(t, records.count())
			for _, op := range []string{"GetRecords", "PutRecords"} {
				format, _ := formats.Load(op)
				assert.Equal(t, c.last, format, op)
			}
			format, _ := formats.Load("GetShardIterator")
			assert.Equal(t, inJSON, format) //nolint:testifylint // the name of a format, not JSON
			assert.Equal(t, c.told, strings.Count(log.String(), "does not take CBOR"))
		})
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
