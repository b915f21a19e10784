package emulators_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/protokinesis/protokinesis/test/emulators"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(emulators.Main(m)) }

func TestEmulatorsAnswer(t *testing.T) {
	for name, start := range map[string]func(testing.TB) string{
		"kinesis-local": emulators.KinesisLocal,
		"kinesalite":    emulators.Kinesalite,
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := start(t)
			if again := start(t); again != endpoint {
				t.Errorf("a second one was started: %s, %s", endpoint, again)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			client := kinesis.New(kinesis.Options{
				Region:       "us-east-1",
				BaseEndpoint: &endpoint,
				Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
			})
			if _, err := client.CreateStream(ctx, &kinesis.CreateStreamInput{
				StreamName: aws.String("emulators-test"),
				ShardCount: aws.Int32(60), // more than both allow by default
			}); err != nil {
				t.Fatal(err)
			}
			streams, err := client.ListStreams(ctx, &kinesis.ListStreamsInput{})
			if err != nil {
				t.Fatal(err)
			}
			if len(streams.StreamNames) != 1 || streams.StreamNames[0] != "emulators-test" {
				t.Errorf("streams: %q", streams.StreamNames)
			}
			refusesOtherInterfaces(t, endpoint)
		})
	}
}

// Nodes are killed in the middle of a request.
func TestEmulatorsBearClientsThatBreakOff(t *testing.T) {
	for name, open := range map[string]func(testing.TB) string{"dynalite": emulators.Dynalite, "kinesalite": emulators.Kinesalite} {
		t.Run(name, func(t *testing.T) {
			endpoint := open(t)
			for range 3 {
				c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(endpoint, "http://"))
				require.NoError(t, err)
				_, err = c.Write([]byte("POST / HTTP/1.1\r\nHost: emulator\r\nContent-Length: 100\r\n\r\n{"))
				require.NoError(t, err)
				require.NoError(t, c.(*net.TCPConn).SetLinger(0)) // it is reset
				require.NoError(t, c.Close())
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint, http.NoBody)
				require.NoError(t, err)
				answer, err := http.DefaultClient.Do(request)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
			}
			http.DefaultClient.CloseIdleConnections()
			require.Equal(t, endpoint, open(t), "it is still the same")
		})
	}
}

func TestDynaliteAnswers(t *testing.T) {
	endpoint := emulators.Dynalite(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client := dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: &endpoint,
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            aws.String("emulators-test"),
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tables, err := client.ListTables(ctx, &dynamodb.ListTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	if len(tables.TableNames) != 1 || tables.TableNames[0] != "emulators-test" {
		t.Errorf("tables: %q", tables.TableNames)
	}
	refusesOtherInterfaces(t, endpoint)
}

// refusesOtherInterfaces checks that the emulator can be reached through loopback only.
func refusesOtherInterfaces(t *testing.T, endpoint string) {
	t.Helper()
	parsed, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		ip, ok := address.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() || ip.IP.To4() == nil {
			continue
		}
		dialer := net.Dialer{Timeout: time.Second}
		if connection, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(ip.IP.String(), parsed.Port())); err == nil {
			_ = connection.Close()
			t.Errorf("it listens on %s", ip.IP)
		}
	}
}

func TestFlights(t *testing.T) {
	flights := emulators.Flights(t)
	if len(flights) != 20_000 {
		t.Fatalf("%d flights", len(flights))
	}
	first := emulators.Flight{Date: "2001/01/13 14:56", Delay: 32, Distance: 418, Origin: "SAN", Destination: "SJC"}
	if flights[0] != first {
		t.Errorf("the first: %+v", flights[0])
	}
}

// What happens where nothing is installed: in an empty module.
func TestNotInstalled(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(folder)

	t.Setenv(emulators.RequireVariable, "")
	if got := flightsOutcome(t); !strings.HasPrefix(got, "skip: left out") ||
		!strings.Contains(got, "vega-datasets is not in test/emulators/node_modules") || !strings.Contains(got, "make test") {
		t.Error(got)
	}
	t.Setenv(emulators.RequireVariable, "1")
	if got := flightsOutcome(t); !strings.HasPrefix(got, "fail: ") {
		t.Error(got)
	}
}

// flightsOutcome says how a test ends that calls Flights.
func flightsOutcome(t *testing.T) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		emulators.Flights(r)
	}()
	<-done
	return r.how
}

// recorder keeps how a test ended.
type recorder struct {
	testing.TB
	how string
}

func (r *recorder) Skipf(format string, args ...any) { r.end("skip: "+format, args) }

func (r *recorder) Fatalf(format string, args ...any) { r.end("fail: "+format, args) }

func (r *recorder) end(format string, args []any) {
	r.how = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
