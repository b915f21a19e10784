package remoting_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	encoding "encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/remoting"
)

// Nodes of one authority talk; one without a certificate, or with one of another authority, is not heard and is told nothing.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	node := start(t, nodeSpec{TLS: ours.issue(t)})
	friend := start(t, nodeSpec{TLS: ours.issue(t)})
	for range 2 {
		require.Equal(t, 8<<20, friend.ask(order{To: node.counter(), Bytes: 8 << 20}).Answered)
		require.Equal(t, 1, node.ask(order{To: friend.counter(), Bytes: 1}).Answered)
	}
	// It trusts our authority, but has a certificate of its own.
	impostor := theirs.issue(t)
	impostor.Authority = ours.pem()
	before := node.received()
	for name, spec := range map[string]nodeSpec{
		"plaintext": {}, "as it comes": {Plain: true}, "of another authority": {TLS: theirs.issue(t)}, "an impostor": {TLS: impostor},
	} {
		t.Run(name, func(t *testing.T) {
			stranger := start(t, spec)
			// Either no answer within the time, or word that there is no way.
			require.NotEmpty(t, stranger.ask(order{To: node.counter(), Bytes: 1, Within: time.Second}).Failed)
			require.NotEmpty(t, node.ask(order{To: stranger.counter(), Bytes: 1, Within: time.Second}).Failed)
			require.Equal(t, before, node.received())
			require.Zero(t, stranger.received())
		})
	}
}

func TestTLSIsForBothSides(t *testing.T) {
	assert.Panics(t, func() { remoting.Configure("127.0.0.1", 0, remoting.WithTLS(&tls.Config{}, nil)) })
	assert.Panics(t, func() { remoting.Configure("127.0.0.1", 0, remoting.WithTLS(nil, &tls.Config{})) })
}

// Without authorities whoever has a certificate that this machine trusts, such as any web site's, would be a node.
func TestMutualTLSNeedsAuthorities(t *testing.T) {
	assert.Panics(t, func() { remoting.Configure("127.0.0.1", 0, remoting.WithMutualTLS(tls.Certificate{}, nil)) })
}

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{certificate: certificate, key: key}
}

func (a *authority) pem() []byte {
	return encoding.EncodeToMemory(&encoding.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// issue makes a certificate for a node on this machine.
func (a *authority) issue(t *testing.T) *pem {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return &pem{
		Certificate: encoding.EncodeToMemory(&encoding.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         encoding.EncodeToMemory(&encoding.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		Authority:   a.pem(),
	}
}
