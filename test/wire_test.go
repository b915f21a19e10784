package test

import (
	"fmt"
	"os"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/actors"
)

// wireVariable is the environment variable that says how the nodes of the tests speak to the service: sdk (by the SDK's own protocol), json or cbor.
// Default: json, the library's.
const wireVariable = "PROTOKINESIS_TEST_WIRE"

// wire is how a node speaks to a service.
func wire(service string) protokinesis.Option {
	switch chosen := os.Getenv(wireVariable); chosen {
	case "sdk":
		return protokinesis.WithSDKProtocol()
	case "cbor":
		if service == kinesalite { // it stores data that came in CBOR so that nobody can read it
			break
		}
		return protokinesis.WithWireFormat(protokinesis.CBOR)
	case "", "json":
	default:
		panic(fmt.Sprintf("%s is %q: sdk, json or cbor", wireVariable, chosen))
	}
	return func(*actors.Config) {}
}
