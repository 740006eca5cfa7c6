package main

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"tallystick.test/matrix/stories"
)

const rate = "producer_byte_rate"

// administer takes the steps of an administrator, and offsets without being a member.
func administer(ctx context.Context, admin *kadm.Client, step stories.Step) (any, error) {
	switch step.Do {
	case "commit":
		wanted := kadm.Offsets{}
		wanted.Add(kadm.Offset{Topic: step.Topic, At: step.Offset, LeaderEpoch: -1, Metadata: step.Metadata})
		answer, err := admin.CommitOffsets(ctx, step.Group, wanted)
		if err != nil {
			return nil, err
		}
		return nil, answer.Error()
	case "committed":
		found, err := admin.FetchOffsets(ctx, step.Group)
		if err != nil {
			return nil, err
		}
		if one, known := found.Lookup(step.Topic, 0); known && one.At >= 0 {
			return map[string]any{"offset": one.At, "metadata": one.Metadata}, one.Err
		}
		return nil, nil
	case "make":
		settings := map[string]*string{}
		for name, value := range step.Settings {
			settings[name] = &value
		}
		_, err := admin.CreateTopic(ctx, int32(step.Partitions), 1, settings, step.Topic)
		return nil, err
	case "partitions":
		found, err := admin.ListTopics(ctx, step.Topic)
		if err != nil {
			return nil, err
		}
		return len(found[step.Topic].Partitions), found[step.Topic].Err
	case "grow":
		answer, err := admin.UpdatePartitions(ctx, step.Partitions, step.Topic)
		if err != nil {
			return nil, err
		}
		return nil, answer.Error()
	case "drop":
		_, err := admin.DeleteTopic(ctx, step.Topic)
		return nil, err
	case "set":
		wanted := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: step.Name, Value: &step.Value}}
		answer, err := admin.AlterTopicConfigs(ctx, wanted, step.Topic)
		if err != nil {
			return nil, err
		}
		return nil, answer[0].Err
	case "setting":
		return setting(ctx, admin, step)
	case "bounds":
		return bounds(ctx, admin, step.Topic)
	case "trim":
		before := kadm.Offsets{}
		before.Add(kadm.Offset{Topic: step.Topic, At: step.Before})
		answer, err := admin.DeleteRecords(ctx, before)
		if err != nil {
			return nil, err
		}
		return nil, answer.Error()
	case "listed":
		found, err := admin.ListGroups(ctx)
		_, known := found[step.Group]
		return known, err
	case "state":
		found, err := admin.DescribeGroups(ctx, step.Group)
		return strings.ToLower(found[step.Group].State), err
	case "forget":
		answer, err := admin.DeleteGroups(ctx, step.Group)
		if err != nil {
			return nil, err
		}
		return nil, answer[step.Group].Err
	}
	return quotas(ctx, admin, step)
}

func setting(ctx context.Context, admin *kadm.Client, step stories.Step) (any, error) {
	found, err := admin.DescribeTopicConfigs(ctx, step.Topic)
	if err != nil {
		return nil, err
	}
	for _, one := range found[0].Configs {
		if one.Key == step.Name {
			return one.MaybeValue(), nil
		}
	}
	return nil, found[0].Err
}

func bounds(ctx context.Context, admin *kadm.Client, topic string) (any, error) {
	first, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	last, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	return []int64{first[topic][0].Offset, last[topic][0].Offset}, nil
}

func quotas(ctx context.Context, admin *kadm.Client, step stories.Step) (any, error) {
	switch step.Do {
	case "quota":
		answer, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &step.ClientID}},
			Ops:    []kadm.AlterClientQuotaOp{{Key: rate, Value: step.Rate}},
		}})
		if err != nil {
			return nil, err
		}
		return nil, answer[0].Err
	case "quota_of":
		found, err := admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{
			{Type: "client-id", MatchName: &step.ClientID},
		})
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, nil
		}
		return found[0].Values[0].Value, nil
	}
	return nil, stories.NotOffered("no " + step.Do)
}
