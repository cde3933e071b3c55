// Loads the client configuration as kubectl does and prints the version of its server.
package main

import (
	"fmt"
	"os"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
)

func version() (string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	config, err := loader.ClientConfig()
	if err != nil {
		return "", err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	found, err := client.ServerVersion()
	if err != nil {
		return "", err
	}
	return found.GitVersion, nil
}

func main() {
	found, err := version()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("go reached", found)
}
