// One program that is what a node adds to a control plane in the tests: the kubelet, and the scheduler that gives it
// Pods. It plays the part it is called by, through a link of that name.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	os.Exit(cli.Run(part(filepath.Base(os.Args[0]))))
}

func part(name string) *cobra.Command {
	switch name {
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background())
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	}
	fmt.Fprintln(os.Stderr, "call it by a link named kubelet or kube-scheduler")
	os.Exit(2)
	return nil
}
