// The controller of Kubeflow's Spark operator and nothing else of it: no webhook, as where it was not asked for.
package main

import (
	"os"

	"github.com/kubeflow/spark-operator/v2/cmd/operator/controller"
)

func main() {
	if controller.NewStartCommand().Execute() != nil { // it said why
		os.Exit(1)
	}
}
