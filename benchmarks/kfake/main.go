// Kfake serves franz-go's in-process fake of Kafka on a port, for the benchmarks.
//
//	kfake PORT
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fail(err)
	}
	cluster, err := kfake.NewCluster(kfake.Ports(port), kfake.NumBrokers(1))
	if err != nil {
		fail(err)
	}
	fmt.Println("listening", cluster.ListenAddrs()[0])
	select {}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kfake:", err)
	os.Exit(1)
}
