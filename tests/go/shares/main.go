// Two members of a share group (KIP-932) by franz-go: some records are given back when they first come, some are
// rejected, all others accepted.
//
// Arguments: the broker, the group, the topic and how many records it has. A line is printed for each record that is
// handed out: partition, offset, the number of this delivery and what was said of it. It ends when all are settled.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 2 * time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, broker, group, topic, count string) error {
	wanted, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	refused := make(chan error, 1)
	var members []*kgo.Client
	for range 2 {
		member, err := kgo.NewClient(
			kgo.SeedBrokers(broker),
			kgo.ConsumeTopics(topic),
			kgo.ShareGroup(group),
			kgo.ShareMaxRecords(10),
			kgo.ShareMaxRecordsStrict(),
			kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
				if err := results.Error(); err != nil {
					select {
					case refused <- err:
					default:
					}
				}
			}),
		)
		if err != nil {
			return err
		}
		defer member.Close()
		members = append(members, member)
	}
	for settled := 0; settled < wanted; {
		for _, member := range members {
			more, err := turn(ctx, member)
			if err != nil {
				return err
			}
			settled += more
		}
	}
	select {
	case err := <-refused:
		return err
	default:
		return nil
	}
}

// turn lets one member have what there is for it. It returns how many records are settled by that.
func turn(ctx context.Context, member *kgo.Client) (int, error) {
	soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	fetches := member.PollFetches(soon)
	if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	settled := 0
	fetches.EachRecord(func(record *kgo.Record) {
		status, word := kgo.AckAccept, "accept"
		switch {
		case record.Offset%3 == 1 && record.DeliveryCount() == 1:
			status, word = kgo.AckRelease, "release"
		case record.Offset%7 == 2:
			status, word = kgo.AckReject, "reject"
		}
		if status != kgo.AckRelease {
			settled++
		}
		record.Ack(status)
		fmt.Println(record.Partition, record.Offset, record.DeliveryCount(), word)
	})
	return settled, member.FlushAcks(ctx)
}
