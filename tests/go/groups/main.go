// Two members of a group of the consumer protocol (KIP-848) by franz-go: each copies what it is given from one topic to
// another, in transactions that commit its offsets with them (KIP-447).
//
// Arguments: the broker, the group, the topic that is read and the one that is written. A line is printed for each
// transaction that was committed: the member, and how many records. It goes on until its standard input is closed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	atOnce   = 20
	patience = 2 * time.Minute
	rest     = 100 * time.Millisecond
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var members sync.WaitGroup
	for _, name := range []string{"left", "right"} {
		members.Add(1)
		go func() {
			defer members.Done()
			for ctx.Err() == nil {
				err := copyAll(ctx, name, os.Args[1], os.Args[2], os.Args[3], os.Args[4])
				if err != nil && ctx.Err() == nil {
					// A session that has failed is of no use any more; its successor fences its transaction.
					fmt.Fprintln(os.Stderr, name, err)
					time.Sleep(rest)
				}
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	members.Wait()
}

func copyAll(ctx context.Context, name, broker, group, from, to string) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(broker),
		kgo.ConsumeTopics(from),
		kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.ServerSideBalancer(),
		kgo.TransactionalID(group+"-"+name),
		kgo.DefaultProduceTopic(to),
		kgo.FetchMaxWait(200*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for ctx.Err() == nil {
		if err := turn(ctx, name, session); err != nil {
			return err
		}
	}
	return nil
}

// turn copies some records, if there are any.
func turn(ctx context.Context, name string, session *kgo.GroupTransactSession) error {
	fetches := session.PollRecords(ctx, atOnce)
	if ctx.Err() != nil || fetches.NumRecords() == 0 {
		return nil // What cannot be fetched now is asked for again.
	}
	if err := session.Begin(); err != nil {
		return err
	}
	fetches.EachRecord(func(record *kgo.Record) {
		session.Produce(ctx, &kgo.Record{Value: record.Value}, nil)
	})
	soon, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	committed, err := session.End(soon, kgo.TryCommit)
	if err != nil {
		return errors.Join(errors.New("a transaction did not end"), err)
	}
	if committed {
		fmt.Println(name, fetches.NumRecords())
	}
	return nil
}
