// franz-go in the job of tests/clients/test_least_rights.py.
//
// Its argument is a JSON file with how it gets in and what the job is (Settings). A line is printed for each thing that
// was done; whatever goes wrong ends the program with status 1 and a sentence.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	records  = 10
	patience = 30 * time.Second
)

// Settings say where the broker is, how to get in, and what the job is: Name is a group and a transactional id,
// Forbidden a topic, a group and a transactional id that are refused.
type Settings struct {
	Bootstrap   string `json:"bootstrap"`
	Authority   string `json:"authority"`
	Certificate string `json:"certificate"` // With its key, in one file. Empty: none is shown.
	Mechanism   string `json:"mechanism"`   // Empty: no SASL.
	User        string `json:"user"`
	Password    string `json:"password"`
	Token       string `json:"token"`
	Name        string `json:"name"`
	Orders      string `json:"orders"`
	Invoices    string `json:"invoices"`
	Forbidden   string `json:"forbidden"`
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var settings Settings
	if err := json.Unmarshal(text, &settings); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		settings.writeOrders, settings.writeInvoices, settings.readInvoices, settings.tryWhatIsForbidden,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Settings) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "":
		return nil, nil
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Auth{Token: s.Token}.AsMechanism(), nil
	}
	return nil, fmt.Errorf("no mechanism %q", s.Mechanism)
}

// options are those of a client that gets in.
func (s *Settings) options(more ...kgo.Opt) ([]kgo.Opt, error) {
	authority, err := os.ReadFile(s.Authority)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(authority) {
		return nil, errors.New("no certificate of an authority")
	}
	encrypted := &tls.Config{RootCAs: trusted}
	if s.Certificate != "" {
		shown, err := tls.LoadX509KeyPair(s.Certificate, s.Certificate)
		if err != nil {
			return nil, err
		}
		encrypted.Certificates = []tls.Certificate{shown}
	}
	mechanism, err := s.mechanism()
	if err != nil {
		return nil, err
	}
	options := append(more, kgo.SeedBrokers(s.Bootstrap), kgo.DialTLSConfig(encrypted), kgo.RecordDeliveryTimeout(patience))
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

func (s *Settings) client(more ...kgo.Opt) (*kgo.Client, error) {
	options, err := s.options(more...)
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(options...)
}

// reading are the options of a member of a group.
func reading(group, topic string) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	}
}

// read polls until all records are there, or an error.
func read(ctx context.Context, poll func(context.Context) kgo.Fetches) ([]string, error) {
	var found []string
	for len(found) < records {
		fetches := poll(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { found = append(found, string(record.Value)) })
	}
	if len(found) > records {
		return nil, fmt.Errorf("too many records: %q", found)
	}
	return found, nil
}

func (s *Settings) writeOrders(ctx context.Context) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.Close()
	var orders []*kgo.Record
	for number := range records {
		orders = append(orders, &kgo.Record{Topic: s.Orders, Value: []byte(strconv.Itoa(number))})
	}
	for number, result := range client.ProduceSync(ctx, orders...) {
		if result.Err != nil {
			return fmt.Errorf("producing: %w", result.Err)
		}
		if result.Record.Offset != int64(number) {
			return fmt.Errorf("offset %d of record %d", result.Record.Offset, number)
		}
	}
	fmt.Println("produced")
	return nil
}

func (s *Settings) writeInvoices(ctx context.Context) error {
	options, err := s.options(append(reading(s.Name, s.Orders), kgo.TransactionalID(s.Name))...)
	if err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return err
	}
	defer session.Close()
	orders, err := read(ctx, session.PollFetches)
	if err != nil {
		return fmt.Errorf("consuming: %w", err)
	}
	fmt.Println("consumed in a group")
	if err := session.Begin(); err != nil {
		return err
	}
	for _, order := range orders {
		session.Produce(ctx, &kgo.Record{Topic: s.Invoices, Value: []byte("invoice " + order)}, nil)
	}
	if committed, err := session.End(ctx, kgo.TryCommit); err != nil || !committed {
		return fmt.Errorf("not committed: %w", err)
	}
	fmt.Println("committed")
	if err := session.Begin(); err != nil {
		return err
	}
	never := &kgo.Record{Topic: s.Invoices, Value: []byte("never")}
	if err := session.ProduceSync(ctx, never).FirstErr(); err != nil {
		return err
	}
	if committed, err := session.End(ctx, kgo.TryAbort); err != nil || committed {
		return fmt.Errorf("not aborted: %w", err)
	}
	fmt.Println("aborted")
	if at := session.Client().CommittedOffsets()[s.Orders][0].Offset; at != records {
		return fmt.Errorf("the group is at %d", at)
	}
	return nil
}

func (s *Settings) readInvoices(ctx context.Context) error {
	client, err := s.client(reading(s.Name, s.Invoices)...)
	if err != nil {
		return err
	}
	defer client.Close()
	found, err := read(ctx, client.PollFetches)
	if err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	for number, value := range found {
		if value != fmt.Sprintf("invoice %d", number) {
			return fmt.Errorf("invoice %d is %q", number, value)
		}
	}
	fmt.Println("read what was committed")
	return nil
}

func (s *Settings) tryWhatIsForbidden(ctx context.Context) error {
	writing, err := s.client()
	if err != nil {
		return err
	}
	defer writing.Close()
	never := &kgo.Record{Topic: s.Forbidden, Value: []byte("never")}
	if err := writing.ProduceSync(ctx, never).FirstErr(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return fmt.Errorf("the forbidden topic: %w", err)
	}
	member, err := s.client(reading(s.Forbidden, s.Orders)...)
	if err != nil {
		return err
	}
	defer member.Close()
	if _, err := read(ctx, member.PollFetches); !errors.Is(err, kerr.GroupAuthorizationFailed) {
		return fmt.Errorf("the forbidden group: %w", err)
	}
	transactional, err := s.client(kgo.TransactionalID(s.Forbidden))
	if err != nil {
		return err
	}
	defer transactional.Close()
	if _, _, err := transactional.ProducerID(ctx); !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		return fmt.Errorf("the forbidden transactional id: %w", err)
	}
	fmt.Println("refused what is forbidden")
	return nil
}
