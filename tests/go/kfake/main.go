// kfake, the broker that franz-go has for tests, with its state in files: a rival of the benchmarks.
//
// Its arguments are a port and a folder. It serves until SIGTERM; what a folder holds is there again after a restart.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(portArgument, folder string) error {
	port, err := strconv.Atoi(portArgument)
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	// Without SyncWrites: written files are in the page cache, as those of a Kafka by default.
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(folder))
	if err != nil {
		return err
	}
	<-ended
	cluster.Close()
	return nil
}
