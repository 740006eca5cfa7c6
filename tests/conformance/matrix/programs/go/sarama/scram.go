package main

import (
	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// talk is SCRAM, which sarama leaves to another module.
type talk struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func conversation(mechanism string) func() sarama.SCRAMClient {
	hash := scram.SHA256
	if mechanism == "SCRAM-SHA-512" {
		hash = scram.SHA512
	}
	return func() sarama.SCRAMClient { return &talk{hash: hash} }
}

func (t *talk) Begin(user, password, authzID string) error {
	client, err := t.hash.NewClient(user, password, authzID)
	if err == nil {
		t.conversation = client.NewConversation()
	}
	return err
}

func (t *talk) Step(challenge string) (string, error) { return t.conversation.Step(challenge) }

func (t *talk) Done() bool { return t.conversation.Done() }
