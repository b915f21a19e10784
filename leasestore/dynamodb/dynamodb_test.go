package dynamodb_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/dynamodb"
	"github.com/protokinesis/protokinesis/leasestore/storetest"
	"github.com/protokinesis/protokinesis/test/emulators"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Every step of the model test is a dozen requests; the memory store runs the full number.
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(emulators.Main(m))
}

var tables atomic.Int64

// newTable is the name of a table that no other test uses.
func newTable() string { return fmt.Sprintf("leases-%d-%d", os.Getpid(), tables.Add(1)) }

// newClient is the SDK's client of the emulator, or of what stands before it.
func newClient(t *testing.T, endpoint string) *sdk.Client {
	t.Helper()
	return sdk.New(sdk.Options{
		Region:       "eu-west-1",
		BaseEndpoint: &endpoint,
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

func newStore(t *testing.T, client dynamodb.API, table string, options ...dynamodb.Option) *dynamodb.Store {
	t.Helper()
	options = append([]dynamodb.Option{dynamodb.Gather(0), dynamodb.Hasty(), dynamodb.Logger(slog.New(slog.DiscardHandler))}, options...)
	s, err := dynamodb.New(client, table, options...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStoreConforms(t *testing.T) {
	client := newClient(t, emulators.Dynalite(t))
	storetest.Run(t, func(t *testing.T) leasestore.Store {
		t.Helper()
		return newStore(t, client, newTable())
	})
}
