package kinesistest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// eofBody is a request body like that of smithy-go after the SDK has closed it.
type eofBody struct{ io.Reader }

func (eofBody) Close() error                     { return nil }
func (eofBody) WriteTo(io.Writer) (int64, error) { return 0, io.EOF }

func TestClientHidesWriteTo(t *testing.T) {
	const text = "a request"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != text || r.ContentLength != int64(len(text)) {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	client := newHTTPClient()
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, eofBody{strings.NewReader(text)})
	require.NoError(t, err)
	r.ContentLength = int64(len(text))
	resp, err := client.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}
