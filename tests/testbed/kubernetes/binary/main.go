// One program that is a whole Kubernetes control plane for the tests: it plays the part it is called by, through a
// link of that name, or else the part its first argument names.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// Another part of Kubernetes (the scheduler, say, or the kubelet) is one line more here, and one in `PARTS` of the
// Python module that builds this.
var parts = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() { os.Exit(cli.Run(controllers.NewControllerManagerCommand())) },
	"kubectl":                 kubectl,
}

func main() {
	part := parts[filepath.Base(os.Args[0])]
	if part == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		part = parts[os.Args[0]]
	}
	if part == nil {
		names := make([]string, 0, len(parts))
		for name := range parts {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintln(os.Stderr, "say which part to play:", strings.Join(names, ", "))
		os.Exit(2)
	}
	part()
}

// kubectl prints its own errors and chooses its own exit codes.
func kubectl() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
