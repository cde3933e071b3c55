// An operator as people write them with controller-runtime: its manager, client, cache, leader
// election and event recorder all have their default settings.
//
// A Site asks for a ConfigMap with its text and a Deployment of some replicas, and its status
// tells how many of them are ready. A finalizer holds it until the operator has said goodbye: a
// ConfigMap that outlives it.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "example.com/farewell"

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addSites(scheme)
	config := ctrl.GetConfigOrDie()
	config.Wrap(tellWrites)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		// Several operators run on one machine in the tests.
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "sites.example.com",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	reconciler := &reconciler{manager.GetClient(), manager.GetEventRecorder("sites")}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Site{}).
		Owns(&core.ConfigMap{}).
		Owns(&apps.Deployment{}).
		Complete(reconciler)
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

type reconciler struct {
	client.Client
	recorder events.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &Site{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.sayGoodbye(ctx, site)
	}
	if controllerutil.AddFinalizer(site, finalizer) {
		return ctrl.Result{}, r.Update(ctx, site)
	}
	if err := r.writeSettings(ctx, site); err != nil {
		return ctrl.Result{}, err
	}
	deployment, err := r.writeDeployment(ctx, site)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.writeStatus(ctx, site, deployment.Status.ReadyReplicas)
}

func (r *reconciler) sayGoodbye(ctx context.Context, site *Site) error {
	if !controllerutil.ContainsFinalizer(site, finalizer) {
		return nil
	}
	farewell := &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: site.Name + "-farewell", Namespace: site.Namespace,
	}}
	if err := r.Create(ctx, farewell); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	before := site.DeepCopy()
	controllerutil.RemoveFinalizer(site, finalizer)
	return client.IgnoreNotFound(r.Patch(ctx, site, client.MergeFrom(before)))
}

func (r *reconciler) writeSettings(ctx context.Context, site *Site) error {
	settings := &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: site.Name, Namespace: site.Namespace,
	}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, settings, func() error {
		settings.Data = map[string]string{"text": site.Spec.Text}
		settings.BinaryData = map[string][]byte{"bytes": {0, 255}}
		return controllerutil.SetControllerReference(site, settings, r.Scheme())
	})
	if err == nil && result == controllerutil.OperationResultCreated {
		r.recorder.Eventf(site, settings, core.EventTypeNormal, "Written", "Write", "text is written")
	}
	return err
}

func (r *reconciler) writeDeployment(
	ctx context.Context, site *Site,
) (*apps.Deployment, error) {
	deployment := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: site.Name, Namespace: site.Namespace,
	}}
	labels := map[string]string{"site": site.Name}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		deployment.Spec.Replicas = &site.Spec.Replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		// Only what it names: the rest is the server's to fill in, and must not be taken away.
		containers := &deployment.Spec.Template.Spec.Containers
		if len(*containers) == 0 {
			*containers = []core.Container{{Name: "web"}}
		}
		(*containers)[0].Image = "nginx"
		return controllerutil.SetControllerReference(site, deployment, r.Scheme())
	})
	return deployment, err
}

func (r *reconciler) writeStatus(ctx context.Context, site *Site, ready int32) error {
	before := site.DeepCopy()
	site.Status.Ready = ready
	state, reason := metav1.ConditionFalse, "Waiting"
	if ready >= site.Spec.Replicas {
		state, reason = metav1.ConditionTrue, "AllReady"
	}
	meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: state, Reason: reason, ObservedGeneration: site.Generation,
	})
	if before.Status.equal(&site.Status) {
		return nil
	}
	return r.Status().Update(ctx, site)
}

// tellWrites prints what is written in which form, for the test to read.
func tellWrites(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && request.Method != http.MethodGet {
			fmt.Printf("%s %s %s %d\n", request.Method, request.URL.Path,
				request.Header.Get("Content-Type"), response.StatusCode)
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	return f(request)
}
