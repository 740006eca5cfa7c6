package stories

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
)

// TLS is what to trust where the broker is guarded.
func (at At) TLS() (*tls.Config, error) {
	authority, err := os.ReadFile(at.Authority)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(authority) {
		return nil, errors.New("no certificate of an authority")
	}
	return &tls.Config{RootCAs: trusted}, nil
}
